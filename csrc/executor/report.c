/*
 * Send failures to the runtime; ociruntime/runtime/executor/failure_messages.py writes the error
 * messages.
 */
#include "executor.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void copy(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);

	memcpy(to, from, length);
	to[length] = '\0';
}

int fail_detail(struct executor *x, const char *call, const char *argument, const char *detail)
{
	x->failure.error = errno;
	copy(x->failure.call, sizeof(x->failure.call), call);
	copy(x->failure.argument, sizeof(x->failure.argument), argument);
	copy(x->failure.detail, sizeof(x->failure.detail), detail);
	return -1;
}

int fail(struct executor *x, const char *call, const char *argument)
{
	return fail_detail(x, call, argument, "");
}

int send_message(int fd, const void *data, size_t size, int attached_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t sent;

	if (attached_fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &attached_fd, sizeof(int));
	}
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size ? 0 : -1;
}

int send_short(struct executor *x, int fd, uint32_t kind, uint32_t value, int attached_fd)
{
	x->failure.kind = kind;
	x->failure.value = value;
	return send_message(fd, &x->failure, MESSAGE_SHORT, attached_fd);
}

void report_failure(struct executor *x)
{
	x->failure.kind = MESSAGE_FAILURE;
	x->failure.value = x->step;
	(void)send_message(x->report_fd, &x->failure, sizeof(x->failure), -1);
}

bool passes(int error)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	if (error == EINTR || error == ECONNABORTED)
		return true;
	if (error != EAGAIN && error != ENOMEM && error != EMFILE && error != ENFILE)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

/* Return the type of the reply, 0 if there is none; store the descriptors sent with it. */
static uint32_t receive_answer(int fd, struct go_files *files)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(files->fds))];
	} control = { 0 };
	struct message answer;
	struct iovec part = { .iov_base = &answer, .iov_len = sizeof(answer) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	const struct cmsghdr *header;
	ssize_t size;

	files->count = 0;
	files->lost = false;
	do {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		size = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	} while (size < 0 && passes(errno));
	if (size < (ssize_t)MESSAGE_SHORT)
		return 0;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		size_t length = header->cmsg_len - CMSG_LEN(0);

		memcpy(files->fds, CMSG_DATA(header), length);
		files->count = (unsigned int)(length / sizeof(int));
	}
	/* The kernel drops descriptors without an error if this process may not open that many. */
	files->lost = (message.msg_flags & MSG_CTRUNC) || files->count != answer.value;
	return answer.kind;
}

/* Wait for GO.  At end of file, exit: the runtime has exited, and the container is abandoned. */
void await_go_with(int fd, struct go_files *files)
{
	if (receive_answer(fd, files) != MESSAGE_GO)
		_exit(1);
}

void await_go(int fd)
{
	struct go_files none;

	await_go_with(fd, &none);
}

/*
 * Send the runtime a mount that is about to be attached, changed or unmounted.  The descriptor pins
 * the mount: the next call applies to the mount that the runtime has recognised, even if the path
 * was replaced.  Returns 1 to continue, 0 to leave the mount alone, -1 if the runtime is gone.
 */
int present_mount(struct executor *x, int fd)
{
	struct go_files none;
	uint32_t answer;

	if (send_short(x, x->sync_fd, MESSAGE_MOUNT, x->step, fd) < 0)
		return fail(x, "sendmsg", "");
	answer = receive_answer(x->sync_fd, &none);
	if (answer != MESSAGE_GO && answer != MESSAGE_SKIP)
		_exit(1);
	return answer == MESSAGE_GO;
}
