/* Text formatting without <stdio.h>, which is twenty times as large as the executor. */
#include "text.h"

#include <stdarg.h>
#include <string.h>

struct text text_in(char *data, size_t size)
{
	data[0] = '\0';
	return (struct text){ .data = data, .size = size, .whole = true };
}

void text_add_part(struct text *text, const char *part, size_t length)
{
	size_t room = text->size - text->used - 1;

	if (length > room) {
		text->whole = false;
		length = room;
	}
	memcpy(text->data + text->used, part, length);
	text->used += length;
	text->data[text->used] = '\0';
}

void text_add(struct text *text, const char *part)
{
	text_add_part(text, part, strlen(part));
}

bool text_join(char *data, size_t size, ...)
{
	struct text text = text_in(data, size);
	const char *part;
	va_list parts;

	va_start(parts, size);
	while ((part = va_arg(parts, const char *)) != NULL)
		text_add(&text, part);
	va_end(parts);
	return text.whole;
}

void text_add_number(struct text *text, uint32_t value, unsigned int base)
{
	char digits[32]; /* enough for base 2 */
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % base);
		value /= base;
	} while (value > 0);
	text_add_part(text, digits + at, sizeof(digits) - at);
}

void text_add_fd(struct text *text, int fd)
{
	text_add(text, "/proc/self/fd/");
	text_add_number(text, (uint32_t)fd, 10);
}

bool text_number(const char *from, uint32_t *value)
{
	uint64_t number = 0;
	const char *at = from;

	for (; *at >= '0' && *at <= '9' && number <= UINT32_MAX; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	*value = (uint32_t)number;
	return at > from && *at == '\0' && number <= UINT32_MAX;
}
