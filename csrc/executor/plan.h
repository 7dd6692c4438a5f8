/* A whole plan, validated from end to end before any operation is carried out. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan_ops.h"

struct plan {
	struct plan_reader operations; /* behind the header */
	uint32_t count;
	uint32_t preserve_fds; /* descriptors from 3 upwards that the program keeps */
};

/*
 * Space for the pointers of one operation's lists: a string takes 8 bytes of the plan at least, its
 * pointer as much; and two more for each list.
 */
static inline size_t plan_arena_size(size_t plan_size)
{
	return 2 * plan_size + 4096;
}

/* Return true if `data` (aligned to 4) is exactly one valid plan. */
bool plan_open(struct plan *plan, const void *data, size_t size, char **arena, size_t arena_size);

#endif
