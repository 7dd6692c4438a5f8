/*
 * Start the executor with clone3(2) and execveat(2), for Python.
 *
 * The interpreter's memory is not copied: the child borrows it (CLONE_VM) while the parent sleeps
 * (CLONE_VFORK) and leaves it by execveat(2).  Until then the child makes only system calls.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "spawn_executor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

/*
 * Make the system call inline: the child runs on the parent's stack, so its later calls would
 * overwrite the return address of a wrapper function.
 */
static inline __attribute__((always_inline)) long raw_clone3(struct clone_args *arguments)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_clone3), "D"(arguments), "S"(sizeof(*arguments))
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_clone3;
	register long first __asm__("x0") = (long)arguments;
	register long second __asm__("x1") = sizeof(*arguments);

	__asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
	return first;
#else
	/* On other processors the child gets a copy of the memory, as with fork(2). */
	long result;

	arguments->flags &= ~(uint64_t)(CLONE_VM | CLONE_VFORK);
	result = syscall(SYS_clone3, arguments, sizeof(*arguments));
	return result < 0 ? -errno : result;
#endif
}

static int keep_across_exec(int fd)
{
	return fcntl(fd, F_SETFD, 0);
}

/* Duplicate all streams first, as one may be another's target; the exec closes the duplicates. */
static int set_streams(const int *streams)
{
	int copies[3];

	if (streams[0] == 0 && streams[1] == 1 && streams[2] == 2)
		return 0;
	for (int i = 0; i < 3; i++) {
		copies[i] = fcntl(streams[i], F_DUPFD_CLOEXEC, 3);
		if (copies[i] < 0)
			return -1;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(copies[i], i) < 0)
			return -1;
	return 0;
}

/*
 * Python ignores SIGPIPE and SIGXFSZ, callers ignore others, and neither CLONE_CLEAR_SIGHAND nor
 * execve(2) resets ignored signals.  sigaction(3) refuses the two that the C library reserves.
 */
static void reset_ignored(unsigned long ignored)
{
	static const uint64_t by_default[4]; /* struct sigaction of the kernel */

	for (int number = 1; ignored != 0; number++, ignored >>= 1)
		if (ignored & 1)
			syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
}

static __attribute__((noinline)) long start(struct oci_spawn *spawn, struct clone_args *arguments,
					    char **argv, volatile int *child_error)
{
	static char *const no_environment[] = { NULL };
	long pid = raw_clone3(arguments);

	if (pid != 0)
		return pid;
	reset_ignored(spawn->ignored);
	if (keep_across_exec(spawn->plan_fd) == 0 && keep_across_exec(spawn->sync_fd) == 0 &&
	    keep_across_exec(spawn->init_fd) == 0 &&
	    (spawn->times_fd < 0 || keep_across_exec(spawn->times_fd) == 0) &&
	    set_streams(spawn->streams) == 0)
		syscall(SYS_execveat, spawn->executor_fd, "", argv, no_environment, AT_EMPTY_PATH);
	*child_error = errno;
	_exit(127);
}

int oci_spawn(struct oci_spawn *spawn)
{
	struct clone_args arguments = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
			 (uint64_t)spawn->clone_flags,
		.pidfd = (uint64_t)(uintptr_t)&spawn->pidfd,
		.exit_signal = SIGCHLD,
	};
	char plan[12], sync[12], init[12], times[12];
	char *argv[] = { "ociruntime-init", plan, sync, init, NULL, NULL };
	volatile int child_error = 0;
	sigset_t all, before;
	long pid;

	if (spawn->cgroup_fd >= 0) {
		arguments.flags |= CLONE_INTO_CGROUP;
		arguments.cgroup = (uint64_t)spawn->cgroup_fd;
	}
	snprintf(plan, sizeof(plan), "%d", spawn->plan_fd);
	snprintf(sync, sizeof(sync), "%d", spawn->sync_fd);
	snprintf(init, sizeof(init), "%d", spawn->init_fd);
	if (spawn->times_fd >= 0) {
		snprintf(times, sizeof(times), "%d", spawn->times_fd);
		argv[4] = times;
	}
	spawn->failed = "clone3";
	/*
	 * Block all signals: no handler of the interpreter may run in the child.  The executor
	 * clears the mask.
	 */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = start(spawn, &arguments, argv, &child_error);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return (int)pid;
	spawn->pid = (int)pid;
	if (child_error) {
		close(spawn->pidfd);
		while (waitpid(spawn->pid, NULL, 0) < 0 && errno == EINTR)
			;
		spawn->failed = "execveat";
		return -child_error;
	}
	return 0;
}
