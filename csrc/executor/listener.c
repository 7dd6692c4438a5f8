/*
 * A filter that asks an agent (SCMP_ACT_NOTIFY): its listener must reach the starter, who
 * hands it on.
 *
 * From the moment the filter is loaded, any call of the thread that has loaded it may be held
 * until the agent answers, and the agent has no listener yet.  So a second thread, which the
 * filter does not cover, does what is left to be done; the first one makes no call but
 * execve(2), and waits by looking at memory.  A thread and not a process: the exec ends it,
 * and the program is not born with a child that it never made.
 */
#include "executor.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernel.h"

#define OF_ONE_PROCESS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

enum { LOADING, LOADED, HANDED_ON, FAILED };

static atomic_int progress = LOADING;
static atomic_int filtered = 1; /* the kernel clears it when the filtered thread ends */
static int listener = -1;
static char stack[16384] __attribute__((aligned(16)));

/*
 * The filtered thread can wake nobody, so it is looked after.  No call here may set errno.
 * SCMP_ACT_KILL_THREAD for execve(2) ends that thread alone, and the last one's status is the
 * process's: as a shell would show SIGSYS, which process 1 of a namespace cannot send itself.
 */
static void sleep_until(int wanted)
{
	while (atomic_load(&progress) != wanted) {
		if (atomic_load(&filtered) == 0)
			(void)syscall(SYS_exit, 128 + SIGSYS);
		(void)poll(NULL, 0, 1);
	}
}

static int unfiltered_thread(void *argument)
{
	struct executor *x = argument;

	sleep_until(LOADED);
	if (send_short(x, x->report_fd, MESSAGE_LISTENER, 0, listener) < 0)
		_exit(1); /* nobody is left to start for */
	await_go(x->report_fd);
	if (apply_late_limits(x) == 0) {
		announce_exec(x);
		atomic_store(&progress, HANDED_ON);
		sleep_until(FAILED);
	}
	report_failure(x);
	_exit(1);
}

int load_with_listener(struct executor *x, unsigned int flags, const struct sock_fprog *program)
{
	(void)syscall(SYS_set_tid_address, &filtered);
	if (clone(unfiltered_thread, stack + sizeof(stack), OF_ONE_PROCESS, x) < 0)
		return fail(x, "clone", "");
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
	if (listener < 0)
		return fail(x, "seccomp", "");
	x->listened_to = true;
	atomic_store(&progress, LOADED);
	while (atomic_load(&progress) != HANDED_ON)
		;
	return 0;
}

_Noreturn void leave_report_to_thread(void)
{
	atomic_store(&progress, FAILED);
	for (;;)
		;
}
