/*
 * `delete`: undo all changes made by `create`; ociruntime/runtime/lifecycle/delete.py.
 *
 * The order is the same as in delete.py, so that the interpreter can continue after any step.
 */
#include "fast_path.h"
#include "kernel.h"
#include "text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Time for the init to exit.  A tracer in the container can delay that; the interpreter then kills
 * the tracer as well.
 */
enum { KILL_MILLISECONDS = 1000 };

static bool end_process(const struct record *record)
{
	int pidfd = open_process(record->pid, record->started);
	bool ended;

	if (pidfd < 0)
		return life_of(record->pid, record->started) == ENDED;
	ended = signal_process(pidfd, SIGKILL) == 0 && await_end(pidfd, KILL_MILLISECONDS);
	close(pidfd);
	return ended;
}

static bool remove_files(int directory)
{
	char entries[4096] __attribute__((aligned(8)));
	long size;

	while ((size = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < size;) {
			const struct directory_entry *entry = (const void *)(entries + at);

			if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0 &&
			    unlinkat(directory, entry->name, 0) < 0)
				return false;
			at += entry->size;
		}
	}
	return size == 0;
}

/* Rename the directory first, so that other commands no longer find it. */
static bool remove_directory(const struct container *container)
{
	char doomed[NAME_MAX + 1];

	return text_join(doomed, sizeof(doomed), ".deleting-", container->id, NULL) &&
	       renameat(container->root_fd, container->id, container->root_fd, doomed) == 0 &&
	       remove_files(container->fd) &&
	       unlinkat(container->root_fd, doomed, AT_REMOVEDIR) == 0;
}

int answer_delete(struct container *container, bool force)
{
	enum status status;

	if (!container->record.can_delete || !lock_container(container))
		return FALL_BACK;
	status = find_status(container);
	/*
	 * A frozen process must be thawed to die; deleting a running container is an error, which
	 * the interpreter reports.
	 */
	if (status == STATUS_UNKNOWN || status == STATUS_PAUSED ||
	    (status == STATUS_RUNNING && !force))
		return FALL_BACK;
	if (status != STATUS_STOPPED && !end_process(&container->record))
		return FALL_BACK;
	if (!remove_cgroups(&container->record) || !remove_directory(container))
		return FALL_BACK;
	return 0;
}
