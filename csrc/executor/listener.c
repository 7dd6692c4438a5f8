/*
 * Send the listener of a filter with an agent (SCMP_ACT_NOTIFY) to `start`, which passes it on to
 * the agent.
 *
 * Once the filter is loaded, any call of the thread that loaded it may block until the agent
 * answers, and the agent has no listener yet.  Therefore a second thread, to which the filter does
 * not apply, does the remaining work.  The first thread calls only execve(2); it waits by reading a
 * page that is not mapped yet (userfaultfd(2)).  The helper is a thread, not a process, because the
 * exec ends it: the program does not start with a child that it never forked.
 */
#include "executor.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel.h"

#define OF_ONE_PROCESS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

/* A multiple of every possible page size. */
#define PAGE 65536u

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { LOADING, LOADED, HANDED_ON, FAILED, NEVER };

static atomic_int progress = LOADING;
static atomic_int filtered = 1; /* the kernel clears it when the filtered thread ends */
static int listener = -1;
static int faults = -1;		 /* descriptor of userfaultfd(2) */
static volatile char *missing; /* two pages to wait at: before the exec, and after its failure */
static char stack[16384] __attribute__((aligned(16)));

/*
 * Wait until `progress` has the value `wanted`.  Polls, because the filtered thread cannot wake
 * another thread.  No call here may set errno.  SCMP_ACT_KILL_THREAD for execve(2) kills only that
 * thread, and the process gets the last thread's status: exit as a shell would for SIGSYS, which
 * PID 1 of a namespace cannot send to itself.
 */
static void sleep_until(int wanted)
{
	while (atomic_load(&progress) != wanted) {
		if (atomic_load(&filtered) == 0)
			(void)syscall(SYS_exit, 128 + SIGSYS);
		(void)poll(NULL, 0, 1);
	}
}

/*
 * Prepare pages whose reader sleeps until another thread fills them.  Spinning would be correct but
 * wasteful, and with a real-time policy it would starve every other thread on that processor.
 */
static void prepare_wait(void)
{
	size_t size = 2 * (size_t)PAGE;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register pages = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (memory == MAP_FAILED || faults < 0)
		return; /* not available before Linux 5.11, or denied by a filter */
	pages.range.start = (uint64_t)(uintptr_t)memory;
	pages.range.len = size;
	if (ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &pages) == 0)
		missing = memory;
}

/*
 * Wait until `progress` is `wanted`: read a missing page, because the filtered thread may make no
 * system call.
 */
static void wait_at(unsigned int page, int wanted)
{
	while (atomic_load(&progress) != wanted)
		if (missing)
			(void)missing[page * PAGE];
}

static void wake(int now)
{
	struct uffdio_zeropage page = { .range = { (uint64_t)(uintptr_t)missing, PAGE } };

	atomic_store(&progress, now);
	if (missing)
		(void)ioctl(faults, UFFDIO_ZEROPAGE, &page);
}

static int unfiltered_thread(void *argument)
{
	struct executor *x = argument;

	sleep_until(LOADED);
	if (send_short(x, x->report_fd, MESSAGE_LISTENER, 0, listener) < 0)
		_exit(1); /* the runtime that called `start` has exited */
	await_go(x->report_fd);
	if (apply_late_limits(x) == 0) {
		announce_exec(x);
		wake(HANDED_ON);
		sleep_until(FAILED);
	}
	report_failure(x);
	_exit(1);
}

int load_with_listener(struct executor *x, unsigned int flags, const struct sock_fprog *program)
{
	(void)syscall(SYS_set_tid_address, &filtered);
	prepare_wait();
	if (clone(unfiltered_thread, stack + sizeof(stack), OF_ONE_PROCESS, x) < 0)
		return fail(x, "clone", "");
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
	if (listener < 0)
		return fail(x, "seccomp", "");
	x->listened_to = true;
	atomic_store(&progress, LOADED);
	wait_at(0, HANDED_ON);
	return 0;
}

_Noreturn void leave_report_to_thread(void)
{
	atomic_store(&progress, FAILED);
	for (;;)
		wait_at(1, NEVER);
}
