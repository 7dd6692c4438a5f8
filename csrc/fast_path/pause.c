/*
 * `pause` and `resume`: freeze and thaw the container's cgroup;
 * ociruntime/runtime/lifecycle/pause.py and ociruntime/runtime/cgroups/freezer.py.
 */
#include "fast_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * First interval between two reads of the freezer's state, and maximum sum of all intervals; after
 * that, the interpreter continues with its timeout.
 */
enum { FIRST_PAUSE = 50000, ALL_PAUSES = 500000000 }; /* nanoseconds */

/* The freezer's files and values in cgroup v1 or v2. */
struct version {
	const char *file, *on, *off;
	const char *above; /* file that says whether a cgroup is frozen itself */
	bool is_v1;
};

/* The container's freezer; `path` begins with its directory, of `length` bytes. */
struct freezer {
	const struct version *version;
	size_t length;
	char path[PATH_MAX];
};

static const struct version versions[] = {
	{ .file = "/freezer.state", .on = "FROZEN", .off = "THAWED",
	  .above = "/freezer.self_freezing", .is_v1 = true },
	{ .file = "/cgroup.freeze", .on = "1", .off = "0", .above = "/cgroup.freeze" },
};

/* Return true if the cgroup was created for the container; others may contain foreign processes. */
static bool is_own(const struct record *record, const char *directory)
{
	for (size_t i = 0; i < record->own_count; i++)
		if (strcmp(record->own[i], directory) == 0)
			return true;
	return false;
}

static bool find_freezer(const struct record *record, struct freezer *freezer)
{
	size_t length = strlen(record->freezer);

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		size_t tail = strlen(versions[i].file);

		if (length <= tail || length >= sizeof(freezer->path) ||
		    strcmp(record->freezer + length - tail, versions[i].file) != 0)
			continue;
		freezer->version = &versions[i];
		freezer->length = length - tail;
		memcpy(freezer->path, record->freezer, freezer->length);
		freezer->path[freezer->length] = '\0';
		return is_own(record, freezer->path);
	}
	return false;
}

/* Append a file's name to the first `length` bytes of the path. */
static const char *file_in(struct freezer *freezer, size_t length, const char *name)
{
	size_t size = strlen(name) + 1;

	if (size > sizeof(freezer->path) - length)
		return "";
	memcpy(freezer->path + length, name, size);
	return freezer->path;
}

static bool command(struct freezer *freezer, const char *word)
{
	int fd = open(file_in(freezer, freezer->length, freezer->version->file), O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool has_line(const char *text, const char *line)
{
	while (text && strncmp(text, line, strlen(line)) != 0) {
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return text != NULL;
}

static bool has_frozen(struct freezer *freezer)
{
	const char *file = freezer->version->is_v1 ? freezer->version->file : "/cgroup.events";
	char text[256];

	if (read_small_file(AT_FDCWD, file_in(freezer, freezer->length, file), text,
			    sizeof(text)) < 0)
		return false;
	if (freezer->version->is_v1)
		return strcmp(text, "FROZEN\n") == 0;
	return has_line(text, "frozen 1\n");
}

static bool freeze(struct freezer *freezer)
{
	struct timespec pause = { .tv_nsec = FIRST_PAUSE };

	for (long paused = 0; paused < ALL_PAUSES; paused += pause.tv_nsec, pause.tv_nsec *= 2) {
		/* On v1 a process being forked can escape until FROZEN is written again. */
		if ((paused == 0 || freezer->version->is_v1) && !command(freezer, freezer->version->on))
			return false;
		if (has_frozen(freezer))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/*
 * Return true if a cgroup above is frozen, which keeps the container frozen; the interpreter
 * reports it.
 */
static bool is_frozen_above(struct freezer *freezer)
{
	char text[64];

	for (size_t length = freezer->length; length > 0;) {
		while (length > 0 && freezer->path[length - 1] != '/')
			length--;
		if (length == 0 || --length == 0)
			return false;
		/* The hierarchy's root cgroup has no freezer file. */
		if (read_small_file(AT_FDCWD, file_in(freezer, length, freezer->version->above), text,
				    sizeof(text)) < 0)
			return false;
		if (strcmp(text, "1\n") == 0)
			return true;
	}
	return false;
}

/* Lock the container and find its freezer; return false if its init has exited. */
static bool prepare(struct container *container, struct freezer *freezer)
{
	const struct record *record = &container->record;

	return lock_container(container) && find_freezer(record, freezer) &&
	       life_of(record->pid, record->started) == ALIVE;
}

int answer_pause(struct container *container)
{
	struct freezer freezer;

	return prepare(container, &freezer) && freeze(&freezer) ? 0 : FALL_BACK;
}

int answer_resume(struct container *container)
{
	struct freezer freezer;

	if (!prepare(container, &freezer) || !command(&freezer, freezer.version->off) ||
	    is_frozen_above(&freezer))
		return FALL_BACK;
	return 0;
}
