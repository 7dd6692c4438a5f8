/*
 * Read a plan: every length is checked before it is used.
 *
 * A reader never runs past its data.  The first bad length clears `ok` and makes all further reads
 * fail, so that a caller may test once at the end.
 */
#ifndef PLAN_READER_H
#define PLAN_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_bytes {
	const uint8_t *data;
	uint32_t size;
};

/* `items` ends with a null pointer and has space for two more after the strings. */
struct plan_strs {
	char **items;
	uint32_t count;
};

struct plan_u32s {
	const uint32_t *items;
	uint32_t count;
};

struct plan_header {
	uint32_t magic;
	uint32_t size;
	uint32_t count;
	uint32_t preserve_fds;
};

struct plan_operation {
	uint32_t code;
	uint32_t size;
};

/* Pointer arrays of lists are allocated in `arena`, which the caller provides. */
struct plan_reader {
	const uint8_t *data;
	size_t size;
	size_t at;
	bool ok;
	char **arena;
	size_t arena_size;
	size_t arena_used;
};

bool plan_header(struct plan_reader *r, struct plan_header *header);
bool plan_operation(struct plan_reader *r, struct plan_operation *operation);
bool plan_u32(struct plan_reader *r, uint32_t *value);
bool plan_u64(struct plan_reader *r, uint64_t *value);
bool plan_str(struct plan_reader *r, const char **value);
bool plan_bytes(struct plan_reader *r, struct plan_bytes *value);
bool plan_strs(struct plan_reader *r, struct plan_strs *value);
bool plan_u32s(struct plan_reader *r, struct plan_u32s *value);

/* Return a reader over the next `size` bytes; the outer one continues after them. */
bool plan_inner(struct plan_reader *r, uint32_t size, struct plan_reader *inner);

#endif
