/* The few functions of <string.h> that the executor and its compiler call. */
#undef _FORTIFY_SOURCE /* fortified.c's checks call these */

#include <string.h>

/* Otherwise gcc replaces the loop in memcpy with a call of memcpy itself. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	char *out = to;
	const char *in = from;

	while (size-- > 0)
		*out++ = *in++;
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	char *out = to;
	const char *in = from;

	if (out <= in)
		return memcpy(to, from, size);
	while (size-- > 0)
		out[size] = in[size];
	return to;
}

void *memset(void *at, int value, size_t size)
{
	char *out = at;

	while (size-- > 0)
		*out++ = (char)value;
	return at;
}

int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *a = one, *b = other;

	for (; size > 0; size--, a++, b++)
		if (*a != *b)
			return *a - *b;
	return 0;
}

void *memchr(const void *at, int value, size_t size)
{
	const unsigned char *in = at;

	for (; size > 0; size--, in++)
		if (*in == (unsigned char)value)
			return (void *)(size_t)in;
	return NULL;
}

size_t strnlen(const char *text, size_t size)
{
	size_t length = 0;

	while (length < size && text[length] != '\0')
		length++;
	return length;
}

size_t strlen(const char *text)
{
	return strnlen(text, (size_t)-1);
}

int strncmp(const char *one, const char *other, size_t size)
{
	for (; size > 0; size--, one++, other++)
		if (*one != *other || *one == '\0')
			return (unsigned char)*one - (unsigned char)*other;
	return 0;
}

int strcmp(const char *one, const char *other)
{
	return strncmp(one, other, (size_t)-1);
}

char *strchr(const char *text, int value)
{
	for (;; text++) {
		if (*text == (char)value)
			return (char *)(size_t)text;
		if (*text == '\0')
			return NULL;
	}
}

char *strrchr(const char *text, int value)
{
	char *found = NULL;

	for (;; text++) {
		if (*text == (char)value)
			found = (char *)(size_t)text;
		if (*text == '\0')
			return found;
	}
}

size_t strspn(const char *text, const char *accepted)
{
	size_t length = 0;

	while (text[length] != '\0' && strchr(accepted, text[length]))
		length++;
	return length;
}

size_t strcspn(const char *text, const char *refused)
{
	size_t length = 0;

	while (!strchr(refused, text[length]))
		length++;
	return length;
}

char *strcpy(char *restrict to, const char *restrict from)
{
	return memcpy(to, from, strlen(from) + 1);
}
