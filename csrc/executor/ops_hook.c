/*
 * Hooks that run in the container's namespaces.
 *
 * A hook gets the state on standard input, and its output is kept for the error message.  Both are
 * memfds: a hook that never reads its input, or prints without end, cannot block the executor.
 * Long output is truncated regularly.
 */
#include "executor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"

static int write_all(int fd, const char *data)
{
	size_t size = strlen(data);

	while (size > 0) {
		ssize_t written = write(fd, data, size);

		if (written < 0)
			return -1;
		data += written;
		size -= (size_t)written;
	}
	return 0;
}

static int state_file(struct op_hook *op)
{
	int fd = memfd_create("state", MFD_CLOEXEC);
	char data[16];
	struct text pid = text_in(data, sizeof(data));

	if (fd < 0)
		return -1;
	text_add_number(&pid, (uint32_t)getpid(), 10);
	if (write_all(fd, op->state_before) < 0 || write_all(fd, data) < 0 ||
	    write_all(fd, op->state_after) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void become_hook(struct executor *x, struct op_hook *op, int state, int output, int failed)
{
	int error;

	if (op->with_home && x->has_home)
		op->env.items[op->env.count] = x->home; /* the list has room */
	umask(022); /* our umask is 0, for the modes that config.json sets */
	hide_preserved(x);
	if (setpgid(0, 0) == 0 && (!x->entered || chdir("/") == 0) && dup2(state, 0) == 0 &&
	    dup2(output, 1) == 1 && dup2(output, 2) == 2)
		execve(op->source, op->args.items, op->env.items);
	error = errno;
	(void)!write(failed, &error, sizeof(error));
	_exit(127);
}

/* Keep only the end of the output; the hook writes with O_APPEND, so this leaves no hole. */
static void cut(int output)
{
	const off_t most = 1 << 20;
	char tail[4096];
	off_t end = lseek(output, 0, SEEK_END);
	ssize_t size;

	if (end <= most)
		return;
	size = pread(output, tail, sizeof(tail), end - (off_t)sizeof(tail));
	if (ftruncate(output, 0) == 0 && size > 0)
		(void)!write(output, tail, (size_t)size);
}

/* Wait for the hook; return 0 if it has exited in time, 1 if not, -1 on error.  0 s: no timeout. */
static int is_late(pid_t pid, uint32_t timeout, int output)
{
	const int look = 10; /* milliseconds */
	uint64_t left = (uint64_t)timeout * 1000 / (uint64_t)look;
	struct pollfd ended = { .fd = sys_pidfd_open(pid), .events = POLLIN };
	int result;

	if (ended.fd < 0)
		return timeout > 0 ? -1 : 0;
	do {
		result = poll(&ended, 1, look);
		cut(output);
	} while (result == 0 && (timeout == 0 || --left > 0));
	close(ended.fd);
	return result < 0 ? -1 : result == 0;
}

/*
 * Wait for the hook, and kill its process group if it is late; return the result of `is_late`.
 */
static int await_hook(pid_t pid, uint32_t timeout, int output, int *status)
{
	int late = is_late(pid, timeout, output), error = errno;

	if (late != 0) {
		(void)kill(-pid, SIGKILL);
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	errno = error;
	return late;
}

static int fail_hook(struct executor *x, struct op_hook *op, const char *what, int status,
		     int output)
{
	char tail[sizeof(x->failure.detail)];
	off_t end = lseek(output, 0, SEEK_END);
	off_t start = end > (off_t)sizeof(tail) - 1 ? end - (off_t)sizeof(tail) + 1 : 0;
	ssize_t size = pread(output, tail, sizeof(tail) - 1, start);

	tail[size > 0 ? size : 0] = '\0';
	errno = status;
	return fail_detail(x, what, op->source, tail);
}

static int finish_hook(struct executor *x, struct op_hook *op, pid_t pid, int failed, int output)
{
	int error = 0, status = 0, late = await_hook(pid, op->timeout, output, &status);

	if (late < 0)
		return fail(x, "pidfd_open", op->source);
	if (read(failed, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		errno = error;
		return fail(x, "execve", op->source);
	}
	if (late > 0)
		return fail_hook(x, op, "hook timeout", (int)op->timeout, output);
	if (status != 0)
		return fail_hook(x, op, "hook", status, output);
	return 0;
}

int run_hook(struct executor *x, struct op_hook *op)
{
	int state = state_file(op), output = memfd_create("output", MFD_CLOEXEC), result;
	int failed[2];
	pid_t pid;

	if (state < 0 || output < 0)
		return fail(x, "memfd_create", op->source);
	(void)fcntl(output, F_SETFL, O_APPEND);
	if (pipe2(failed, O_CLOEXEC) < 0)
		return fail(x, "pipe2", op->source);
	pid = fork();
	if (pid < 0)
		return fail(x, "fork", op->source);
	if (pid == 0)
		become_hook(x, op, state, output, failed[1]);
	close(failed[1]);
	result = finish_hook(x, op, pid, failed[0], output);
	close(failed[0]);
	close(state);
	close(output);
	return result;
}
