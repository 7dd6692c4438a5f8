/* json.c: a JSON object in memory, member by member. */
#define _GNU_SOURCE
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *text;
static size_t used, size;
static int first = 1;

static void add(const char *bytes, size_t length)
{
	if (used + length > size) {
		size = (used + length) * 2 + 4096;
		char *larger = realloc(text, size);
		if (!larger)
			_exit(125);
		text = larger;
	}
	memcpy(text + used, bytes, length);
	used += length;
}

__attribute__((format(printf, 1, 2))) static void add_format(const char *format, ...)
{
	char buffer[64];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(buffer, sizeof(buffer), format, arguments);
	va_end(arguments);
	add(buffer, (size_t)length);
}

static void add_quoted(const char *bytes, size_t length)
{
	add("\"", 1);
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c == '"' || c == '\\') {
			add("\\", 1);
			add(&bytes[i], 1);
		} else if (c < 0x20) {
			add_format("\\u%04x", c);
		} else {
			add(&bytes[i], 1);
		}
	}
	add("\"", 1);
}

static void member(const char *key)
{
	if (!first)
		add(",", 1);
	first = 0;
	if (key) {
		add_quoted(key, strlen(key));
		add(":", 1);
	}
}

void put_open(const char *key, char bracket)
{
	member(key);
	add(&bracket, 1);
	first = 1;
}

void put_close(char bracket)
{
	add(&bracket, 1);
	first = 0;
}

void put_number(const char *key, long long value)
{
	member(key);
	add_format("%lld", value);
}

void put_unsigned(const char *key, unsigned long long value)
{
	member(key);
	add_format("%llu", value);
}

void put_bytes(const char *key, const char *value, size_t length)
{
	member(key);
	add_quoted(value, length);
}

void put_text(const char *key, const char *value)
{
	if (value) {
		put_bytes(key, value, strlen(value));
		return;
	}
	member(key);
	add("null", 4);
}

void put_texts(const char *key, char *const *values)
{
	put_open(key, '[');
	for (; *values; values++)
		put_text(NULL, *values);
	put_close(']');
}

void put_error(const char *key, int error)
{
	put_open(key, '{');
	put_text("error", error_name(error));
	put_close('}');
}

void put_end(int fd)
{
	add("\n", 1);
	for (size_t done = 0; done < used;) {
		ssize_t written = write(fd, text + done, used - done);
		if (written <= 0)
			_exit(124);
		done += (size_t)written;
	}
	used = 0;
	first = 1;
}
