/* The cgroup directories of an ended container: ociruntime/runtime/cgroups/placement.py, remove_all. */
#include "entry.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* In all, for all hierarchies: then somebody is left in one, and has to be killed first. */
enum { PAUSES = 100, PAUSE_NANOSECONDS = 200000 };

static bool is_gone(int error)
{
	return error == ENOENT || error == ENODEV;
}

static bool has_children(const char *directory)
{
	struct stat found;

	return stat(directory, &found) == 0 && found.st_nlink > 2;
}

/* A dead process leaves its cgroup a moment after its parent has seen it die. */
static bool remove_own(const char *directory, int *pauses)
{
	static const struct timespec pause = { .tv_nsec = PAUSE_NANOSECONDS };

	while (rmdir(directory) < 0 && !is_gone(errno)) {
		if (errno != EBUSY || *pauses == 0 || has_children(directory))
			return false;
		--*pauses;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* False if that is left to the interpreter, which goes on where this has stopped. */
bool remove_cgroups(const struct record *record)
{
	int pauses = PAUSES;

	for (size_t i = 0; i < record->own_count; i++)
		if (!remove_own(record->own[i], &pauses))
			return false;
	for (size_t i = 0; i < record->parent_count; i++)
		/* busy: others use it by now, and the last of them removes it */
		if (rmdir(record->parents[i]) < 0 && !is_gone(errno) && errno != EBUSY &&
		    errno != ENOTEMPTY)
			return false;
	return true;
}
