/*
 * main() of `_pod_init`, which runs as a pod's process 1 or as its lock holder:
 *
 *   _pod_init pod LOCK CONTROL REPORT NAMESPACES HOSTNAME [CGROUP]...
 *       makes the pod's process 1, as a child of the caller, writes its pid to the descriptor
 *       REPORT as a line, and becomes the pod's lock holder
 *   _pod_init keep LOCK WATCHED CONTROL [CGROUP]...
 *       replaces a lock holder that was killed; WATCHED is a pidfd of process 1
 *
 * Descriptors and namespaces (the CLONE_NEW* flags, ORed) are decimal numbers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pod_init.h"

#define WRONG_USE 2
#define FIRST_CGROUP 7 /* number of arguments of `pod` */
#ifndef HOST_NAME_MAX
#define HOST_NAME_MAX 64
#endif

static unsigned long number(const char *text)
{
	unsigned long value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (unsigned long)(*text - '0');
	if (*text != '\0')
		_exit(WRONG_USE);
	return value;
}

/*
 * Write the pid to the pipe to the monitor.  If that fails, exit: the monitor notices the exit, but
 * would wait for the pid for ever.
 */
static void tell(int fd, long pid)
{
	char digits[24];
	size_t at = sizeof(digits);
	ssize_t written;

	digits[--at] = '\n';
	do {
		digits[--at] = (char)('0' + pid % 10);
		pid /= 10;
	} while (pid > 0);
	do {
		written = write(fd, digits + at, sizeof(digits) - at);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		_exit(errno);
}

/*
 * Apps see the command line of process 1: remove host information from it, and name the process.
 */
static void rewrite_arguments(char **argv)
{
	static const char name[] = "ocipod-init";
	bool fits = strlen(argv[0]) >= sizeof(name) - 1;

	for (char **each = argv; *each; each++)
		memset(*each, 0, strlen(*each));
	if (fits)
		memcpy(argv[0], name, sizeof(name) - 1);
}

/*
 * Keep nothing but the two pipes, as 0 and 1: an app with CAP_SYS_PTRACE can use whatever is open in
 * /proc/1/fd, and change the owner and mode of a host's device there.
 */
static void keep_pipes(struct init *init, int lock)
{
	if (dup2(init->control, 0) < 0 || dup2(init->report, 1) < 0)
		_exit(errno);
	close(init->control);
	close(init->report);
	close(lock);
	close(2);
	init->control = 0;
	init->report = 1;
}

static _Noreturn void start_pod(int lock, const struct init *init, char **argv)
{
	int pidfd = -1;
	struct clone_args arguments = {
		/*
		 * CLONE_PARENT: process 1 becomes a child of the monitor, which reaps it, and dies
		 * with the monitor.
		 */
		.flags = CLONE_PARENT | CLONE_PIDFD | init->namespaces,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
	};
	long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid < 0) {
		tell(init->report, 0);
		_exit(errno);
	}
	if (pid == 0) {
		struct init own = *init;
		char hostname[HOST_NAME_MAX + 1];
		size_t size = strnlen(init->hostname, HOST_NAME_MAX);

		keep_pipes(&own, lock);
		memcpy(hostname, init->hostname, size);
		hostname[size] = '\0';
		own.hostname = hostname;
		rewrite_arguments(argv);
		be_init(&own);
	}
	tell(init->report, pid);
	close(init->report);
	be_lock_holder(pidfd, init->control, argv + FIRST_CGROUP);
}

int main(int argc, char **argv)
{
	if (argc >= FIRST_CGROUP && strcmp(argv[1], "pod") == 0) {
		const struct init init = {
			.control = (int)number(argv[3]),
			.report = (int)number(argv[4]),
			.namespaces = number(argv[5]),
			.hostname = argv[6],
		};

		start_pod((int)number(argv[2]), &init, argv);
	}
	if (argc >= 5 && strcmp(argv[1], "keep") == 0)
		be_lock_holder((int)number(argv[3]), (int)number(argv[4]), argv + 5);
	return WRONG_USE;
}
