/*
 * The program `ociruntime`: answers the plain cases of four commands itself (entry/)
 * and leaves everything else to the interpreter.
 */
#include "entry/entry.h"
#include "launcher/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_SIZE = 8192 };

/*
 * The first write to any cgroup.procs after a quiet time waits for an RCU grace
 * period, 5 to 20 ms; writes soon after it wait no more.  So a throw-away
 * process moves itself to the cgroup where it already is while the interpreter
 * starts, and `create` finds the wait over.  cgroup v2 needs none of this: the
 * container's process is born in its cgroup.
 */
static char head_start_stack[STACK_SIZE] __attribute__((aligned(16)));
static char parting_stack[STACK_SIZE] __attribute__((aligned(16)));

/* Opens cgroup.procs of the caller's group in the first v1 hierarchy that lets us write. */
static int open_own_group(void)
{
	char list[4096], path[PATH_MAX];
	int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, list, sizeof(list) - 1);

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return -1;
	list[length] = '\0';
	for (char *rest = list, *line; (line = strsep(&rest, "\n")) != NULL;) {
		/* "4:memory:/a/b", "9:name=systemd:/a"; version 2 is "0::/a" */
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group || group == controllers + 1)
			continue;
		*group++ = '\0';
		controllers++;
		if (strncmp(controllers, "name=", 5) == 0)
			controllers += 5;
		if (snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/cgroup.procs", controllers,
			     group) >= (int)sizeof(path))
			continue;
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* What the mover is given: its cgroup.procs, and a pidfd of the command it moves for. */
struct errand {
	int group;
	int command;
};

static void close_all_but(int one, int other)
{
	int low = one < other ? one : other, high = one < other ? other : one;

	if (low > 0)
		syscall(SYS_close_range, 0, low - 1, 0);
	if (high > low + 1)
		syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0U, 0);
}

static int move_to_own_group(void *argument)
{
	const struct errand *errand = argument;
	struct pollfd command = {.fd = errand->command, .events = POLLIN};

	/* A caller that reads our output to its end must not wait for this process. */
	close_all_but(errand->group, errand->command);
	/*
	 * The kernel forgets the wait again some milliseconds after a write: where the
	 * interpreter takes longer to start than that, the wait is kept over by further
	 * writes, until the command is over and for a tenth of a second at most.
	 */
	for (int i = 0; i < 25; i++) {
		/* "0" is the writer itself, in every pid namespace. */
		if (write(errand->group, "0", 1) < 0)
			return 1;
		if (poll(&command, 1, 4) != 0)
			return 0;
	}
	return 0;
}

/*
 * The mover shares our memory instead of copying it, so that it starts in some
 * microseconds; our exec leaves that memory to it.
 */
static int part_from_mover(void *argument)
{
	return clone(move_to_own_group, head_start_stack + STACK_SIZE, CLONE_VM, argument) < 0;
}

/*
 * Forked twice: the mover outlives us by design, and as our child it would stay
 * behind as a zombie of the interpreter, which cannot know about it.
 */
static void begin_grace_period(void)
{
	static struct errand errand; /* not on the stack: the mover reads it while we go on */
	pid_t parting;

	errand.group = open_own_group();
	if (errand.group < 0)
		return;
	errand.command = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (errand.command >= 0) {
		parting = clone(part_from_mover, parting_stack + STACK_SIZE,
				CLONE_VM | CLONE_VFORK | SIGCHLD, &errand);
		if (parting > 0)
			while (waitpid(parting, NULL, 0) < 0 && errno == EINTR)
				;
		close(errand.command);
	}
	close(errand.group);
}

/* An option's value or an id that happens to be such a word costs one needless process. */
static bool enters_cgroup(char *const argv[])
{
	for (; *argv; argv++)
		if (strcmp(*argv, "create") == 0 || strcmp(*argv, "run") == 0 ||
		    strcmp(*argv, "exec") == 0)
			return true;
	return false;
}

int main(int argc, char *argv[])
{
	const struct program program = {"ociruntime", "__main__.py", 1};
	int failure_fd = -1, status;

	if (!may_run(&program))
		return program.failure;
	status = answer(argc, argv, &failure_fd);
	if (status != FALL_BACK)
		return status;
	if (enters_cgroup(argv))
		begin_grace_period();
	return become_interpreter(&program, argc, argv, failure_fd);
}
