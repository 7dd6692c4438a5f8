/* `start`: the created container becomes its program; ociruntime/runtime/start.py. */
#include "entry.h"
#include "message.h"
#include "plan_ops.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t receive(int connection, struct message *message)
{
	ssize_t length;

	do {
		length = recv(connection, message, sizeof(*message), 0);
	} while (length < 0 && errno == EINTR);
	return length;
}

/*
 * The message cannot be received twice: the interpreter gets it in a file, which is empty if
 * the container's process has ended without a word.
 */
static int hand_over(const struct message *message, size_t length, int *failure_fd)
{
	int fd = memfd_create("failure", 0);

	if (fd < 0 || write(fd, message, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET) != 0)
		return FALL_BACK;
	*failure_fd = fd;
	return FALL_BACK;
}

static int await_exec(int connection, int *failure_fd)
{
	struct message message = { 0 };
	bool announced = false;
	ssize_t length;

	for (;;) {
		length = receive(connection, &message);
		if (length < (ssize_t)MESSAGE_SHORT)
			break;
		if (message.kind != MESSAGE_EXEC)
			return hand_over(&message, (size_t)length, failure_fd);
		announced = true;
	}
	return announced ? 0 : hand_over(&message, 0, failure_fd);
}

int answer_start(struct container *container, int *failure_fd)
{
	const struct message order = { .kind = MESSAGE_GO };
	const struct record *record = &container->record;
	int connection, status;

	if (!record->can_start || !lock_container(container) ||
	    !is_alive(record->pid, record->started) || is_frozen(record->freezer))
		return FALL_BACK;
	connection = connect_gate(container, 0);
	if (connection < 0)
		return FALL_BACK;
	if (send(connection, &order, MESSAGE_SHORT, MSG_NOSIGNAL) != (ssize_t)MESSAGE_SHORT) {
		close(connection);
		return FALL_BACK;
	}
	status = await_exec(connection, failure_fd);
	close(connection);
	/* Only tidiness: behind the name nobody listens any more. */
	if (status == 0)
		unlinkat(container->fd, "start", 0);
	return status;
}
