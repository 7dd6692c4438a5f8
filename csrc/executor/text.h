/* Text in a buffer of fixed size, and numbers parsed from text. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `data` always ends with NUL; `whole` becomes false if some text does not fit. */
struct text {
	char *data;
	size_t size;
	size_t used;
	bool whole;
};

struct text text_in(char *data, size_t size);
void text_add(struct text *text, const char *part);
void text_add_part(struct text *text, const char *part, size_t length);
/* Join the strings up to a NULL into `data`; false if they do not fit. */
bool text_join(char *data, size_t size, ...) __attribute__((sentinel));
void text_add_number(struct text *text, uint32_t value, unsigned int base);
/* Write the path at which procfs shows an open descriptor. */
void text_add_fd(struct text *text, int fd);

/* Parse a decimal number without sign and without trailing characters. */
bool text_number(const char *from, uint32_t *value);

#endif
