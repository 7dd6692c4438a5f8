/* A whole plan, which is validated before any operation is carried out. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan_ops.h"

struct plan {
	struct plan_reader operations; /* after the header */
	uint32_t count;
	uint32_t preserve_fds; /* descriptors from 3 upwards that the program keeps */
};

/*
 * Space for the pointers of one operation's lists: a string takes at least 8 bytes of the plan, and
 * its pointer another 8; each list needs two more pointers.
 */
static inline size_t plan_arena_size(size_t plan_size)
{
	return 2 * plan_size + 4096;
}

/* Return true if `data` (aligned to 4) is exactly one valid plan. */
bool plan_open(struct plan *plan, const void *data, size_t size, char **arena, size_t arena_size);

#endif
