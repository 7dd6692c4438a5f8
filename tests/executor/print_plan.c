/*
 * Reads plans as the executor does and prints what it understood, one answer to each plan.
 *
 * In: size:u32 byte* for each plan.  Out: a line for each operation and a line "end"; or the
 * line "refused".  Strings and bytes are printed in hexadecimal.  PRINT_OPERATIONS comes from
 * the table of operations; see test_plan_reader.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#ifndef PRINT_OPERATIONS
#define PRINT_OPERATIONS /* only for a look at the rest */
#endif

static void print_hex(const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)data)[i]);
}

static void print_u32(uint32_t value)
{
	printf(" %" PRIu32, value);
}

static void print_u64(uint64_t value)
{
	printf(" %" PRIu64, value);
}

static void print_str(const char *value)
{
	putchar(' ');
	print_hex(value, strlen(value));
}

static void print_bytes(struct plan_bytes value)
{
	putchar(' ');
	print_hex(value.data, value.size);
}

static void print_strs(struct plan_strs value)
{
	printf(" [");
	for (uint32_t i = 0; i < value.count; i++)
		print_str(value.items[i]);
	printf(" ]");
	/* The end of an argv, and room for one entry more. */
	if (value.items[value.count] || value.items[value.count + 1])
		abort();
	value.items[value.count] = "";
}

static void print_u32s(struct plan_u32s value)
{
	printf(" [");
	for (uint32_t i = 0; i < value.count; i++)
		print_u32(value.items[i]);
	printf(" ]");
}

static void print_operation(uint32_t code, struct plan_reader *fields)
{
	switch (code) {
		PRINT_OPERATIONS
	default:
		(void)fields;
		abort();
	}
}

static void print_plan(struct plan *plan)
{
	for (uint32_t i = 0; i < plan->count; i++) {
		struct plan_operation operation;
		struct plan_reader fields;

		if (!plan_operation(&plan->operations, &operation) ||
		    !plan_inner(&plan->operations, operation.size, &fields))
			abort();
		printf("%" PRIu32, operation.code);
		print_operation(operation.code, &fields);
		putchar('\n');
	}
	puts("end");
}

int main(void)
{
	uint32_t size;

	while (fread(&size, sizeof(size), 1, stdin) == 1) {
		/* Exactly as large as it is, so that one byte too far is seen. */
		uint8_t *data = malloc(size);
		char **arena = malloc(plan_arena_size(size));
		struct plan plan;

		if (!data || !arena || fread(data, 1, size, stdin) != size)
			abort();
		if (plan_open(&plan, data, size, arena, plan_arena_size(size)))
			print_plan(&plan);
		else
			puts("refused");
		fflush(stdout);
		free(data);
		free(arena);
	}
	return 0;
}
