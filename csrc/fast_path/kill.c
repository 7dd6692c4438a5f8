/*
 * `kill`: send a signal to the container's init; ociruntime/runtime/lifecycle/kill.py.
 * signal_names.c parses the signal.
 */
#include "fast_path.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Return true if the cgroup has child cgroups: the container may have frozen one. */
static bool has_children(const char *file, size_t directory)
{
	char path[PATH_MAX];

	if (directory >= sizeof(path))
		return true;
	memcpy(path, file, directory);
	path[directory] = '\0';
	return has_child_cgroups(path);
}

/* On v1 a frozen process cannot exit, so after SIGKILL it must also be thawed. */
static bool is_held_by_v1(const char *freezer)
{
	static const char name[] = "/freezer.state";
	size_t length = strlen(freezer), tail = sizeof(name) - 1;

	return length > tail && strcmp(freezer + length - tail, name) == 0 &&
	       (is_frozen(freezer) || has_children(freezer, length - tail));
}

int answer_kill(struct container *container, int number)
{
	const struct record *record = &container->record;
	int pidfd, result;

	/* Without a pid namespace of its own, the container's other processes must be killed too. */
	if (number == SIGKILL && !record->own_pid_namespace)
		return FALL_BACK;
	pidfd = open_process(record->pid, record->started);
	if (pidfd < 0)
		return FALL_BACK;
	result = signal_process(pidfd, number);
	close(pidfd);
	if (result < 0)
		return FALL_BACK;
	/*
	 * Check after sending: a freeze in between cannot go unnoticed.  A second SIGKILL does no
	 * harm.
	 */
	if (number == SIGKILL && is_held_by_v1(record->freezer))
		return FALL_BACK;
	return 0;
}
