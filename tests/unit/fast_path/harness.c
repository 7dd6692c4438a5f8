/*
 * Shows what single parts of csrc/fast_path/ make of their input:
 *
 *     harness signals NAME... | id ID | root [PATH] | arguments ARGUMENT...
 *     harness record < FILE
 *     harness records < FILE: records, each after its length in four bytes; "1" if one is read
 */
#include "fast_path/fast_path.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int show_record(void)
{
	static struct record record;
	size_t length = fread(record.text, 1, RECORD_SIZE, stdin);

	if (!parse_record(&record, length))
		return 1;
	printf("%d %llu [%s] %d %d %d %u\n", record.pid, record.started, record.freezer,
	       record.own_pid_namespace, record.can_start, record.can_delete, record.owner);
	for (size_t i = 0; i < record.own_count; i++)
		printf("own %s\n", record.own[i]);
	for (size_t i = 0; i < record.parent_count; i++)
		printf("parent %s\n", record.parents[i]);
	printf("%s(pid)%s(status)", record.head, record.middle);
	fwrite(record.tail, 1, record.tail_length, stdout);
	return 0;
}

static int try_records(void)
{
	uint32_t length;

	while (fread(&length, sizeof(length), 1, stdin) == 1) {
		/* A new one each time: a read beyond the end finds nothing of the last record. */
		struct record *record = calloc(1, sizeof(*record));

		if (record == NULL || length > RECORD_SIZE ||
		    fread(record->text, 1, length, stdin) != length)
			return 2;
		puts(parse_record(record, length) ? "1" : "0");
		free(record);
	}
	return 0;
}

static int show_arguments(int argc, char *argv[])
{
	static const char *const verbs[] = { "state", "start",  "kill", "delete",
					     "pause", "resume", "ps" };
	struct request request;

	if (!read_arguments(argc, argv, &request))
		return 1;
	printf("%s\n%s\n%s\n%d\n%d\n", verbs[request.verb], request.root ? request.root : "",
	       request.id, request.signal, request.force);
	return 0;
}

int main(int argc, char *argv[])
{
	char root[PATH_MAX];

	if (argc == 2 && strcmp(argv[1], "record") == 0)
		return show_record();
	if (argc == 2 && strcmp(argv[1], "records") == 0)
		return try_records();
	if (argc >= 2 && strcmp(argv[1], "arguments") == 0)
		return show_arguments(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "root") == 0) {
		if (!find_state_root(argc > 2 ? argv[2] : NULL, root))
			return 1;
		puts(root);
		return 0;
	}
	if (argc >= 2 && strcmp(argv[1], "signals") == 0)
		for (int at = 2; at < argc; at++)
			printf("%d\n", signal_number(argv[at]));
	else if (argc == 3 && strcmp(argv[1], "id") == 0)
		return !is_plain_id(argv[2]);
	return 0;
}
