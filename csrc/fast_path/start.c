/* `start`: the created container becomes its program; ociruntime/runtime/lifecycle/start.py. */
#include "fast_path.h"
#include "message.h"
#include "plan_ops.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FOREVER = -1, EXEC_MILLISECONDS = 10000 };

/*
 * Return the length of the next message, or 0 at the end.  End of file may never arrive: a process
 * of another container that has traced the init may keep a duplicate of the init's end of the
 * connection.  Therefore the init's exit counts as the end, and so do `milliseconds` without a
 * message.
 */
static ssize_t receive(int connection, int pidfd, struct message *message, int milliseconds)
{
	struct pollfd sources[] = { { .fd = connection, .events = POLLIN },
				    { .fd = pidfd, .events = POLLIN } };
	ssize_t length;
	int ready;

	do {
		ready = poll(sources, 2, milliseconds);
	} while (ready < 0 && errno == EINTR);
	if (!sources[0].revents)
		return 0;
	do {
		length = recv(connection, message, sizeof(*message), 0);
	} while (length < 0 && errno == EINTR);
	return length;
}

/*
 * A message can be received only once, so pass it to the interpreter in a file, which stays empty if
 * the container's init has exited without a message.
 */
static int hand_over(const struct message *message, size_t length, int *failure_fd)
{
	int fd = memfd_create("failure", 0);

	if (fd < 0 || write(fd, message, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET) != 0)
		return FALL_BACK;
	*failure_fd = fd;
	return FALL_BACK;
}

/*
 * Wait for the exec.  After the announcement, read only one more message: a process that traces the
 * init could send any number.
 */
static int await_exec(int connection, int pidfd, int *failure_fd)
{
	struct message message = { 0 };
	ssize_t length = receive(connection, pidfd, &message, FOREVER);

	if (length < (ssize_t)MESSAGE_SHORT)
		return hand_over(&message, 0, failure_fd);
	if (message.kind != MESSAGE_EXEC)
		return hand_over(&message, (size_t)length, failure_fd);
	length = receive(connection, pidfd, &message, EXEC_MILLISECONDS);
	if (length < (ssize_t)MESSAGE_SHORT || message.kind != MESSAGE_FAILURE)
		return 0;
	return hand_over(&message, (size_t)length, failure_fd);
}

int answer_start(struct container *container, int *failure_fd)
{
	const struct message order = { .kind = MESSAGE_GO };
	const struct record *record = &container->record;
	int connection, pidfd, status = FALL_BACK;

	if (!record->can_start || !lock_container(container) || is_frozen(record->freezer))
		return FALL_BACK;
	pidfd = open_process(record->pid, record->started);
	if (pidfd < 0)
		return FALL_BACK;
	connection = connect_gate(container, SOCK_NONBLOCK); /* backlog full: Python waits */
	if (connection >= 0) {
		if (send(connection, &order, MESSAGE_SHORT, MSG_NOSIGNAL) == MESSAGE_SHORT)
			status = await_exec(connection, pidfd, failure_fd);
		close(connection);
	}
	close(pidfd);
	/* Remove the gate's name: no process listens there any more. */
	if (status == 0)
		unlinkat(container->fd, "start", 0);
	return status;
}
