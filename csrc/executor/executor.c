/*
 * The executor: executor PLAN_FD SYNC_FD INIT_FD [TIMES_FD]
 *
 * It validates the whole plan before it carries out the first operation, so that a damaged plan has
 * no effect.  After that it allocates no memory.
 */
#include "executor.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

static int run_operation(struct executor *x, uint32_t code, struct plan_reader *fields)
{
	switch (code) {
#define CASE(number, name)                       \
	case number: {                           \
		struct op_##name op;             \
		if (!read_##name(fields, &op))   \
			break;                   \
		return run_##name(x, &op);       \
	}
		PLAN_OPERATIONS(CASE)
#undef CASE
	}
	return fail(x, "read", "plan");
}

/*
 * Record the current time, of CLOCK_REALTIME, which time namespaces do not shift.  `place` is 0 for
 * the start of this program, N + 1 for operation N.
 */
static void note_time(struct executor *x, uint32_t place)
{
	struct timespec now;

	if (!x->times || place >= x->time_count ||
	    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now) < 0)
		return;
	x->times[place] = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool map_times(struct executor *x, int fd)
{
	struct stat file;
	void *times;

	if (fstat(fd, &file) < 0 || file.st_size <= 0)
		return false;
	times = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (times == MAP_FAILED)
		return false;
	x->times = times;
	x->time_count = (uint32_t)((size_t)file.st_size / sizeof(*x->times));
	note_time(x, 0);
	return true;
}

/*
 * Carry out the operations.  Returns only after a failure: the last operation executes the program.
 */
static void run_plan(struct executor *x, struct plan *plan)
{
	for (x->step = 0; x->step < plan->count; x->step++) {
		struct plan_operation operation;
		struct plan_reader fields;

		errno = EBADMSG;
		if (!plan_operation(&plan->operations, &operation) ||
		    !plan_inner(&plan->operations, operation.size, &fields))
			break;
		note_time(x, x->step + 1);
		if (operation.code == OP_SECCOMP)
			x->times = NULL; /* the filter may forbid clock_gettime(2) */
		if (run_operation(x, operation.code, &fields) < 0)
			return;
	}
	errno = EBADMSG;
	(void)fail(x, "read", "plan");
}

#define SIGACTION_RESTORER 0x04000000ul

/* struct sigaction of the kernel. x86-64 calls no handler without a restorer. */
struct kernel_sigaction {
	void (*handler)(int number);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static void end_by_signal(int number)
{
	_exit(128 + number);
}

static void never_called(void)
{
}

/* Unblock all signals, which execve(2) keeps blocked; oci_spawn() has reset the ignored ones. */
static void prepare_signals(void)
{
	/*
	 * The kernel discards signals to PID 1 of a pid namespace that have no handler: without this
	 * handler, SIGTERM would not end a container that waits for `start`.
	 */
	static const struct kernel_sigaction ending = {
		.handler = end_by_signal,
		.flags = SIGACTION_RESTORER,
		.restorer = never_called,
	};
	static const uint64_t none;

	(void)syscall(SYS_rt_sigaction, SIGTERM, &ending, NULL, sizeof(none));
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

/* Open and verify /proc, the only directory of the host that stays open for later operations. */
static int open_host(struct executor *x)
{
	struct statfs filesystem;

	x->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (x->proc_fd < 0)
		return fail(x, "open", "/proc");
	if (fstatfs(x->proc_fd, &filesystem) < 0)
		return fail(x, "fstatfs", "/proc");
	look_for_mount_ids_in(x->proc_fd);
	errno = ENODEV;
	return filesystem.f_type == PROC_SUPER_MAGIC ? 0 : fail(x, "verify", "/proc");
}

static bool map_plan(int fd, struct plan *plan)
{
	struct stat file;
	size_t size, arena_size;
	void *data, *arena;

	if (fstat(fd, &file) < 0 || file.st_size <= 0)
		return false;
	size = (size_t)file.st_size;
	arena_size = plan_arena_size(size);
	data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	arena = mmap(NULL, arena_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	close(fd);
	if (data == MAP_FAILED || arena == MAP_FAILED)
		return false;
	errno = EBADMSG;
	return plan_open(plan, data, size, arena, arena_size);
}

/* Index of the operation in a report of a failure that precedes the first operation. */
#define NO_STEP UINT32_MAX

static struct executor executor;

int main(int argc, char **argv)
{
	struct executor *x = &executor;
	struct plan plan;
	uint32_t plan_fd, sync_fd, init_fd, times_fd;

	if (getauxval(AT_SECURE) || argc < 4 || argc > 5 || !text_number(argv[1], &plan_fd) ||
	    !text_number(argv[2], &sync_fd) || !text_number(argv[3], &init_fd))
		return 1;
	/*
	 * Become undumpable before any process of the container can see this one: that prevents
	 * ptrace(2) and access to /proc/PID/fd.
	 */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "ociruntime-init");
	x->sync_fd = (int)sync_fd;
	x->init_fd = (int)init_fd;
	x->report_fd = x->sync_fd;
	x->step = NO_STEP;
	x->root_fd = x->proc_fd = x->null_fd = x->pid_fd = x->mask_fd = x->kernel_fd = -1;
	memset(x->slots, 0xff, sizeof(x->slots));
	prepare_signals();
	umask(0);
	if (argc == 5 && !(text_number(argv[4], &times_fd) && map_times(x, (int)times_fd)))
		return 1;
	errno = EBADMSG; /* for an empty file */
	if (!map_plan((int)plan_fd, &plan)) {
		(void)fail(x, "read", "plan");
	} else if (close_others(x, (int)plan.preserve_fds) == 0 && open_host(x) == 0) {
		/*
		 * Leave the caller's terminal: otherwise the program could inject input into it
		 * (TIOCSTI).
		 */
		if (setsid() < 0)
			(void)fail(x, "setsid", "");
		else
			run_plan(x, &plan);
	}
	if (x->listened_to)
		leave_report_to_thread();
	report_failure(x);
	return 1;
}
