/*
 * Remove the cgroup directories of a stopped container: ociruntime/runtime/cgroups/cgroup_directory.py,
 * remove_all.
 */
#include "fast_path.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * Time limit for all hierarchies together.  If it expires, a process is still running, and the
 * interpreter must kill it.
 */
enum { PAUSES = 100, PAUSE_NANOSECONDS = 200000 };

static bool is_gone(int error)
{
	return error == ENOENT || error == ENODEV;
}

/* A dead process leaves its cgroup a moment after its parent has reaped it. */
static bool remove_own(const char *directory, int *pauses)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_NANOSECONDS };

	while (rmdir(directory) < 0 && !is_gone(errno)) {
		if (errno != EBUSY || *pauses == 0 || has_child_cgroups(directory))
			return false;
		--*pauses;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Return false if the interpreter must remove the remaining directories. */
bool remove_cgroups(const struct record *record)
{
	int pauses = PAUSES;

	for (size_t i = 0; i < record->own_count; i++)
		if (!remove_own(record->own[i], &pauses))
			return false;
	for (size_t i = 0; i < record->parent_count; i++)
		/* EBUSY: another container uses the directory now, and will remove it */
		if (rmdir(record->parents[i]) < 0 && !is_gone(errno) && errno != EBUSY &&
		    errno != ENOTEMPTY)
			return false;
	return true;
}
