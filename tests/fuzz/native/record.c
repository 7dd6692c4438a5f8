/*
 * The fast path's record: any bytes are refused, or are a record whose strings lie within them.
 */
#include <stdlib.h>
#include <string.h>

#include "fast_path/fast_path.h"

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

static void inside(const struct record *record, const char *text, size_t size)
{
	if (text < record->text || text + strlen(text) > record->text + size)
		abort();
}

static void paths(const struct record *record, const char *const list[], size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		inside(record, list[i], size);
		if (list[i][0] != '/')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size)
{
	/* A new one each time: a read beyond the end finds nothing of the last record. */
	struct record *record = calloc(1, sizeof(*record));

	if (!record)
		abort();
	if (size > RECORD_SIZE)
		size = RECORD_SIZE;
	memcpy(record->text, input, size);
	if (parse_record(record, size)) {
		if (record->pid <= 0 || record->own_count > MAX_OWN ||
		    record->parent_count > MAX_PARENTS)
			abort();
		paths(record, record->own, record->own_count, size);
		paths(record, record->parents, record->parent_count, size);
		inside(record, record->freezer, size);
		inside(record, record->head, size);
		inside(record, record->middle, size);
		if (record->tail + record->tail_length != record->text + size)
			abort();
	}
	free(record);
	return 0;
}
