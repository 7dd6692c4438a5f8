/*
 * Any bytes are either refused or a plan that can be read to its end.
 *
 * The first two words, which hardly any change would leave valid, are put right.
 */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void read_operation(uint32_t code, struct plan_reader *fields)
{
	switch (code) {
#define CASE(number, name)                                               \
	case number: {                                                   \
		struct op_##name op;                                     \
		if (!read_##name(fields, &op) || fields->at != fields->size) \
			abort();                                         \
		return;                                                  \
	}
		PLAN_OPERATIONS(CASE)
#undef CASE
	}
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	uint8_t *data = malloc(size ? size : 1);
	char **arena = malloc(plan_arena_size(size));
	uint32_t head[2] = { PLAN_MAGIC, (uint32_t)size };
	struct plan plan;

	if (!data || !arena)
		abort();
	memcpy(data, input, size);
	if (size >= sizeof(head))
		memcpy(data, head, sizeof(head));
	if (plan_open(&plan, data, size, arena, plan_arena_size(size))) {
		for (uint32_t i = 0; i < plan.count; i++) {
			struct plan_operation operation;
			struct plan_reader fields;

			if (!plan_operation(&plan.operations, &operation) ||
			    !plan_inner(&plan.operations, operation.size, &fields))
				abort();
			read_operation(operation.code, &fields);
		}
	}
	free(data);
	free(arena);
	return 0;
}
