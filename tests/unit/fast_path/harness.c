/*
 * Shows what single parts of csrc/fast_path/ make of their input:
 *
 *     harness signal NAME | id ID | root [PATH] | arguments ARGUMENT...
 *     harness record < FILE
 */
#include "fast_path/fast_path.h"

#include <stdio.h>
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

static int show_arguments(int argc, char *argv[])
{
	static const char *const verbs[] = { "state", "start", "kill", "delete" };
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
	if (argc >= 2 && strcmp(argv[1], "arguments") == 0)
		return show_arguments(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "root") == 0) {
		if (!find_state_root(argc > 2 ? argv[2] : NULL, root))
			return 1;
		puts(root);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "signal") == 0)
		printf("%d\n", signal_number(argv[2]));
	else if (argc == 3 && strcmp(argv[1], "id") == 0)
		return !is_plain_id(argv[2]);
	return 0;
}
