/*
 * Entry: executor PLAN_FD SYNC_FD GATE_FD
 *
 * The whole plan is read once before anything is done, so that a damaged one changes
 * nothing.  From then on no memory is allocated.
 */
#include "executor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"

#define PROC_SUPER_MAGIC 0x9fa0

static int run_operation(struct executor *x, uint32_t code, struct plan_reader *fields)
{
	switch (code) {
#define CASE(number, name)                                      \
	case number: {                                          \
		struct op_##name op;                            \
		if (!read_##name(fields, &op))                  \
			break;                                  \
		return x ? run_##name(x, &op) : 0;              \
	}
		PLAN_OPERATIONS(CASE)
#undef CASE
	}
	errno = EBADMSG;
	return x ? fail(x, "read", "plan") : -1;
}

/* With no executor the operations are only read, not run. */
static int run_plan(struct executor *x, struct plan_reader plan, uint32_t count)
{
	for (uint32_t step = 0; step < count; step++) {
		struct plan_operation operation;
		struct plan_reader fields;

		if (!plan_operation(&plan, &operation) ||
		    !plan_inner(&plan, operation.size, &fields))
			return -1;
		if (x)
			x->step = step;
		if (run_operation(x, operation.code, &fields) < 0 || fields.at != fields.size)
			return -1;
	}
	return plan.at == plan.size ? 0 : -1;
}

/* Python ignores SIGPIPE and SIGXFSZ, callers block or ignore others; execve(2) keeps both. */
static void reset_signals(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		(void)sigaction(number, &plain, NULL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The only two paths of the host that are opened for later use, both verified. */
static int open_host(struct executor *x)
{
	struct statfs filesystem;
	struct stat node;

	x->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (x->proc_fd < 0)
		return fail(x, "open", "/proc");
	if (fstatfs(x->proc_fd, &filesystem) < 0)
		return fail(x, "fstatfs", "/proc");
	errno = ENODEV;
	if (filesystem.f_type != PROC_SUPER_MAGIC)
		return fail(x, "verify", "/proc");
	x->null_fd = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (x->null_fd < 0 || fstat(x->null_fd, &node) < 0)
		return fail(x, "open", "/dev/null");
	errno = ENODEV;
	if (!S_ISCHR(node.st_mode) || node.st_rdev != makedev(1, 3))
		return fail(x, "verify", "/dev/null");
	return 0;
}

static int map_plan(int fd, struct plan_reader *plan, struct plan_header *header)
{
	struct stat file;
	size_t size, arena;

	if (fstat(fd, &file) < 0 || file.st_size < (off_t)sizeof(*header))
		return -1;
	size = (size_t)file.st_size;
	plan->data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	/* A string takes 8 bytes of the plan at least, a pointer as much: twice is enough. */
	arena = 2 * size + 4096;
	plan->arena = mmap(NULL, arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (plan->data == MAP_FAILED || plan->arena == MAP_FAILED)
		return -1;
	plan->size = size;
	plan->at = 0;
	plan->ok = true;
	plan->arena_size = arena / sizeof(char *);
	plan->arena_used = 0;
	if (!plan_header(plan, header) || header->magic != PLAN_MAGIC || header->size != size)
		return -1;
	return 0;
}

/*
 * Nothing of the caller may stay open while the container waits for its start, only the two
 * sockets and the descriptors to be passed on; the program gets none but the latter.
 */
static int close_others(struct executor *x, uint32_t preserve_fds)
{
	unsigned int low = (unsigned int)(x->sync_fd < x->gate_fd ? x->sync_fd : x->gate_fd);
	unsigned int high = (unsigned int)(x->sync_fd < x->gate_fd ? x->gate_fd : x->sync_fd);
	unsigned int first = 3 + preserve_fds;

	if (low < first || (low > first && sys_close_range(first, low - 1, 0) < 0) ||
	    (high > low + 1 && sys_close_range(low + 1, high - 1, 0) < 0) ||
	    sys_close_range(high + 1, ~0U, 0) < 0 ||
	    sys_close_range(low, high, CLOSE_RANGE_CLOEXEC) < 0)
		return fail(x, "close_range", "");
	return 0;
}

static struct executor executor = { .root_fd = -1, .proc_fd = -1, .null_fd = -1 };

int main(int argc, char **argv)
{
	struct executor *x = &executor;
	struct plan_reader plan;
	struct plan_header header;

	if (argc != 4 || getauxval(AT_SECURE))
		return 1;
	/* Before anything of the container is near: no ptrace, no look into /proc/PID/fd. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "ociruntime-init");
	x->sync_fd = atoi(argv[2]);
	x->gate_fd = atoi(argv[3]);
	x->report_fd = x->sync_fd;
	memset(x->slots, 0xff, sizeof(x->slots));
	reset_signals();
	umask(0);
	if (map_plan(atoi(argv[1]), &plan, &header) < 0 ||
	    run_plan(NULL, plan, header.count) < 0) {
		errno = EBADMSG;
		(void)fail(x, "read", "plan");
	} else if (close_others(x, header.preserve_fds) == 0 && open_host(x) == 0) {
		(void)setsid();
		(void)run_plan(x, plan, header.count);
	}
	report_failure(x);
	return 1;
}
