/*
 * `state`: print the document that was written at creation, with the current pid and status;
 * ociruntime/runtime/lifecycle/state.py.
 */
#include "fast_path.h"
#include "text.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const words[] = {
	[STATUS_CREATED] = "created",
	[STATUS_RUNNING] = "running",
	[STATUS_PAUSED] = "paused",
	[STATUS_STOPPED] = "stopped",
};

static int write_out(const char *text, size_t length)
{
	static const uint64_t ignored[8] = { 1 /* SIG_IGN */ }; /* struct sigaction of the kernel */
	size_t done = 0;

	/*
	 * Do not die of a reader that has closed the pipe; the interpreter ignores SIGPIPE as well.
	 */
	(void)syscall(SYS_rt_sigaction, SIGPIPE, ignored, NULL, 8);
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
	static char data[RECORD_SIZE + 64];
	struct text text = text_in(data, sizeof(data));
	const struct record *record = &container->record;
	enum status status = find_status(container);
	struct stat found;

	/* The document contains the owner's name. */
	if (status == STATUS_UNKNOWN || fstat(container->fd, &found) < 0 ||
	    found.st_uid != record->owner)
		return FALL_BACK;
	text_add(&text, record->head);
	text_add_number(&text, status == STATUS_STOPPED ? 0 : (uint32_t)record->pid, 10);
	text_add(&text, record->middle);
	text_add(&text, words[status]);
	text_add(&text, record->tail);
	return text.whole ? write_out(text.data, text.used) : FALL_BACK;
}
