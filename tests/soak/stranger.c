/*
 * Give a pid that was just freed to a new process, which records what is done to it.
 *
 * A line with a pid on standard input makes the stranger; the answer is "made", or "taken" if
 * another process has got the pid meanwhile.  The next line, "end", kills and reaps it.  All signals
 * that can be blocked are: one that is sent stays pending, and /proc/PID/status shows it.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t make(pid_t wanted)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&wanted,
		.set_tid_size = 1,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (pid < 0 && errno != EEXIST)
		err(1, "clone3 with pid %d", (int)wanted);
	return (pid_t)pid;
}

int main(void)
{
	char line[64];
	pid_t pid = -1;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (pid > 0) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
			pid = -1;
			puts("ended");
		} else {
			pid = make(atoi(line));
			puts(pid > 0 ? "made" : "taken");
		}
	}
	return 0;
}
