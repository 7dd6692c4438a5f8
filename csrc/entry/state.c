/* `state`: the text that was laid down at creation, with pid and status as they are now. */
#include "entry.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const words[] = {
	[STATUS_CREATED] = "created",
	[STATUS_RUNNING] = "running",
	[STATUS_PAUSED] = "paused",
	[STATUS_STOPPED] = "stopped",
};

static int write_out(const char *text, size_t length)
{
	size_t done = 0;

	/* As in the interpreter: a reader that has gone is no reason to be killed. */
	signal(SIGPIPE, SIG_IGN);
	while (done < length) {
		ssize_t written = write(STDOUT_FILENO, text + done, length - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return done == 0 ? FALL_BACK : 1;
		done += (size_t)written;
	}
	return 0;
}

int answer_state(struct container *container)
{
	static char text[RECORD_SIZE + 64];
	const struct record *record = &container->record;
	enum status status = find_status(container);
	struct stat found;
	int length;

	/* The text has the owner's name in it. */
	if (status == STATUS_UNKNOWN || fstat(container->fd, &found) < 0 ||
	    found.st_uid != record->owner)
		return FALL_BACK;
	length = snprintf(text, sizeof(text), "%s%d%s%s%s", record->head,
			  status == STATUS_STOPPED ? 0 : record->pid, record->middle,
			  words[status], record->tail);
	if (length < 0 || (size_t)length >= sizeof(text))
		return FALL_BACK;
	return write_out(text, (size_t)length);
}
