/* Validate a whole plan before any operation is carried out. */
#include "plan.h"

#include <limits.h>

static bool read_fields(uint32_t code, struct plan_reader *fields)
{
	switch (code) {
#define CASE(number, name)                                                     \
	case number: {                                                         \
		struct op_##name op;                                           \
		return read_##name(fields, &op) && fields->at == fields->size; \
	}
		PLAN_OPERATIONS(CASE)
#undef CASE
	}
	return false;
}

static bool read_operations(struct plan_reader operations, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct plan_operation operation;
		struct plan_reader fields;

		if (!plan_operation(&operations, &operation) ||
		    !plan_inner(&operations, operation.size, &fields) ||
		    !read_fields(operation.code, &fields))
			return false;
	}
	return operations.at == operations.size;
}

bool plan_open(struct plan *plan, const void *data, size_t size, char **arena, size_t arena_size)
{
	struct plan_reader *r = &plan->operations;
	struct plan_header header;

	*r = (struct plan_reader){ .data = data, .size = size, .ok = true };
	r->arena = arena;
	r->arena_size = arena_size / sizeof(*arena);
	if (!plan_header(r, &header) || header.magic != PLAN_MAGIC || header.size != size ||
	    header.preserve_fds > INT_MAX)
		return false;
	plan->count = header.count;
	plan->preserve_fds = header.preserve_fds;
	return read_operations(*r, header.count);
}
