/*
 * csrc/libc/strings.c and csrc/executor/text.c beside the C library's own functions.
 *
 * All short texts over a small alphabet are tried, in buffers that end where they end, so
 * that one byte too far is seen.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Ours, compiled under other names: see OWN in test_footprint.py. */
extern __typeof__(memcpy) own_memcpy;
extern __typeof__(memmove) own_memmove;
extern __typeof__(memset) own_memset;
extern __typeof__(memcmp) own_memcmp;
extern __typeof__(memchr) own_memchr;
extern __typeof__(strnlen) own_strnlen;
extern __typeof__(strlen) own_strlen;
extern __typeof__(strncmp) own_strncmp;
extern __typeof__(strcmp) own_strcmp;
extern __typeof__(strchr) own_strchr;
extern __typeof__(strrchr) own_strrchr;
extern __typeof__(strspn) own_strspn;
extern __typeof__(strcspn) own_strcspn;
extern __typeof__(strcpy) own_strcpy;

#define LONGEST 4
#define TEXTS 341 /* 1 + 4 + 16 + 64 + 256 */

static const char alphabet[] = { 'a', 'b', '/', (char)0xff };
static char *texts[TEXTS];

#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			exit(1);                                              \
		}                                                             \
	} while (0)

static int sign(int value)
{
	return (value > 0) - (value < 0);
}

static void make_texts(void)
{
	size_t made = 0, count = 1;

	for (size_t length = 0; length <= LONGEST; length++, count *= 4) {
		for (size_t number = 0; number < count; number++) {
			char *text = calloc(length + 1, 1);

			if (!text)
				abort();
			for (size_t i = 0, rest = number; i < length; i++, rest /= 4)
				text[i] = alphabet[rest % 4];
			texts[made++] = text;
		}
	}
	CHECK(made == TEXTS);
}

static void check_one(const char *text)
{
	size_t length = strlen(text);
	char *copy = malloc(length + 1);

	if (!copy)
		abort();
	CHECK(own_strlen(text) == length);
	for (size_t size = 0; size <= length; size++)
		CHECK(own_strnlen(text, size) == strnlen(text, size));
	for (size_t i = 0; i <= sizeof(alphabet); i++) {
		int value = i < sizeof(alphabet) ? alphabet[i] : '\0';

		CHECK(own_strchr(text, value) == strchr(text, value));
		CHECK(own_strrchr(text, value) == strrchr(text, value));
		CHECK(own_memchr(text, value, length) == memchr(text, value, length));
	}
	CHECK(own_strcpy(copy, text) == copy && strcmp(copy, text) == 0);
	CHECK(own_memset(copy, 'x', length) == copy && strspn(copy, "x") == length);
	free(copy);
}

static void check_two(const char *one, const char *other)
{
	size_t shorter = strlen(one) < strlen(other) ? strlen(one) : strlen(other);

	CHECK(sign(own_strcmp(one, other)) == sign(strcmp(one, other)));
	CHECK(own_strspn(one, other) == strspn(one, other));
	CHECK(own_strcspn(one, other) == strcspn(one, other));
	for (size_t size = 0; size <= shorter; size++) {
		CHECK(sign(own_strncmp(one, other, size)) == sign(strncmp(one, other, size)));
		CHECK(sign(own_memcmp(one, other, size)) == sign(memcmp(one, other, size)));
	}
}

static void check_moves(void)
{
	for (size_t from = 0; from < 8; from++) {
		for (size_t to = 0; to < 8; to++) {
			char ours[] = "0123456789abcdef", theirs[] = "0123456789abcdef";

			own_memmove(ours + to, ours + from, 8);
			memmove(theirs + to, theirs + from, 8);
			CHECK(memcmp(ours, theirs, sizeof(ours)) == 0);
			own_memcpy(ours, theirs + 8, 8);
			CHECK(memcmp(ours, theirs + 8, 8) == 0);
		}
	}
}

static void check_text(void)
{
	char *data = malloc(8);
	struct text text;

	if (!data)
		abort();
	text = text_in(data, 8);
	text_add(&text, "ab");
	text_add_number(&text, 0, 10);
	text_add_number(&text, 0755, 8);
	CHECK(text.whole && strcmp(data, "ab0755") == 0);
	text_add_part(&text, "cdef", 1);
	CHECK(text.whole && strcmp(data, "ab0755c") == 0);
	text_add(&text, "");
	CHECK(text.whole);
	text_add(&text, "d");
	CHECK(!text.whole && strcmp(data, "ab0755c") == 0);
	text = text_in(data, 8);
	text_add_number(&text, UINT32_MAX, 10);
	CHECK(!text.whole && strcmp(data, "4294967") == 0);
	free(data);
}

static void check_numbers(void)
{
	static const char *const none[] = { "",	 "-1", "+1", " 1", "1 ", "0x1", "1.0",
					    "a", "4294967296", "99999999999999999999999999" };
	uint32_t value;

	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		CHECK(!text_number(none[i], &value));
	CHECK(text_number("0", &value) && value == 0);
	CHECK(text_number("0017", &value) && value == 17);
	CHECK(text_number("4294967295", &value) && value == UINT32_MAX);
}

int main(void)
{
	make_texts();
	for (size_t i = 0; i < TEXTS; i++) {
		check_one(texts[i]);
		for (size_t j = 0; j < TEXTS; j++)
			check_two(texts[i], texts[j]);
	}
	check_moves();
	check_text();
	check_numbers();
	for (size_t i = 0; i < TEXTS; i++)
		free(texts[i]);
	return 0;
}
