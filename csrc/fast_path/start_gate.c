/* Connect to the start gate, at which a container waits (ociruntime/runtime/host/start_gate.py). */
#include "fast_path.h"
#include "text.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Return a connection to the waiting process, or -1; ENOENT and ECONNREFUSED mean that none is
 * waiting.  With SOCK_NONBLOCK, EAGAIN means that a process is waiting, but its backlog is full.
 */
int connect_gate(const struct container *container, int flags)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct text path = text_in(address.sun_path, sizeof(address.sun_path));
	int fd, error;

	/* The path of a state directory may be longer than a socket address allows. */
	text_add_fd(&path, container->fd);
	text_add(&path, "/start");
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}
