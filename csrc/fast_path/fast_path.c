/* The fast path: carry out a command in C, or leave it to the interpreter (FALL_BACK). */
#include "fast_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int answer_found(const struct request *request, struct container *container,
			int *failure_fd)
{
	switch (request->verb) {
	case VERB_STATE:
		return answer_state(container);
	case VERB_START:
		return answer_start(container, failure_fd);
	case VERB_KILL:
		return answer_kill(container, request->signal);
	case VERB_DELETE:
		return answer_delete(container, request->force);
	case VERB_PAUSE:
		return answer_pause(container);
	case VERB_RESUME:
		return answer_resume(container);
	case VERB_PS:
		return answer_ps(container);
	}
	return FALL_BACK;
}

static int answer_request(const struct request *request, struct container *container,
			  int *failure_fd)
{
	if (request->verb == VERB_DELETE && has_stale_directories(container))
		return FALL_BACK;
	if (open_container(container))
		return answer_found(request, container, failure_fd);
	/* `delete --force` of a container that does not exist is not an error. */
	if (request->verb == VERB_DELETE && request->force && container->fd < 0 && errno == ENOENT)
		return 0;
	return FALL_BACK;
}

/*
 * Return true if the log can be opened.  The fast path logs nothing, but the command must fail if
 * it cannot be opened.  A log with another scheme (journald:...) is not a file.
 */
static bool has_log(const char *path)
{
	int fd;

	if (!path || access(path, W_OK) == 0)
		return true;
	if (strchr(path, ':'))
		return false;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int answer(int argc, char *const argv[], int *failure_fd)
{
	static struct container container; /* too large for a stack */
	struct request request;
	int status;

	container.root_fd = container.fd = -1;
	if (!read_arguments(argc, argv, &request) || !has_log(request.log))
		return FALL_BACK;
	status = open_root(&request, &container) ? answer_request(&request, &container, failure_fd)
						 : FALL_BACK;
	/*
	 * A start from a snapshot is no execve(2): without close(2), the descriptor and the lock
	 * would persist.
	 */
	if (container.fd >= 0)
		close(container.fd);
	if (container.root_fd >= 0)
		close(container.root_fd);
	return status;
}
