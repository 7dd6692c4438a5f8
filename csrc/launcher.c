/*
 * The program `ociruntime`: answers the plain cases of four commands itself (entry/);
 * for everything else it finds the interpreter and the package by its own place, and
 * becomes `python -I -S -B -X utf8 .../ociruntime/__main__.py ARGS`.
 *
 * A script would need `#!` with several arguments, which pip rewrites, or the
 * `site` module, whose start costs as much as the whole command.  Nothing here
 * looks at PATH or any other variable: a root tool must not be led elsewhere by
 * its caller's environment, and engines call it with none.
 */
#include "entry/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A packager who keeps the interpreter elsewhere says so: CPPFLAGS=-DINTERPRETER_DIR=... */
#ifndef INTERPRETER_DIR
#define INTERPRETER_DIR "/usr/bin"
#endif

enum { OLDEST_MINOR = 11, NEWEST_MINOR = 30, STACK_SIZE = 8192 };

static int fail(const char *message)
{
	dprintf(STDERR_FILENO, "ociruntime: %s\n", message);
	return 1;
}

/*
 * A closed 0, 1 or 2 would be given to the next file opened, say the state
 * file, which a stray message would then overwrite.
 */
static bool fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* The interpreter would end with a dump of its state. */
static bool has_directory_for_stream(void)
{
	struct stat status;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
			return true;
	return false;
}

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

struct place {
	char interpreter[PATH_MAX];
	char program[PATH_MAX];
};

static bool cut_last_name(char path[PATH_MAX])
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
	return slash != NULL;
}

/* By its real name a virtual environment's interpreter need not read pyvenv.cfg. */
static bool find_interpreter(const char *directory, const char *version, char found[PATH_MAX])
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/python%s", directory, version) <
		       (int)sizeof(path) &&
	       access(path, X_OK) == 0 && realpath(path, found) != NULL;
}

static bool find_program(const char *prefix, const char *version, char found[PATH_MAX])
{
	static const char *const layouts[] = {
		"%s/lib/python%s/site-packages/ociruntime/__main__.py",
		"%s/lib/python%s/dist-packages/ociruntime/__main__.py",
		"%s/local/lib/python%s/dist-packages/ociruntime/__main__.py",
	};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (snprintf(found, PATH_MAX, layouts[i], prefix, version) < PATH_MAX &&
		    access(found, R_OK) == 0)
			return true;
	return false;
}

static bool find_for_version(const char *prefix, const char *bin, const char *version,
			     struct place *place)
{
	return find_program(prefix, version, place->program) &&
	       (find_interpreter(bin, version, place->interpreter) ||
		find_interpreter(INTERPRETER_DIR, version, place->interpreter));
}

static bool find_place(struct place *place)
{
	char prefix[PATH_MAX], bin[PATH_MAX], version[16];
	ssize_t length = readlink("/proc/self/exe", bin, sizeof(bin) - 1);

	if (length <= 0)
		return false;
	bin[length] = '\0';
	if (!cut_last_name(bin) || !cut_last_name(strcpy(prefix, bin)))
		return false;
	for (int minor = OLDEST_MINOR; minor <= NEWEST_MINOR; minor++) {
		snprintf(version, sizeof(version), "3.%d", minor);
		if (find_for_version(prefix, bin, version, place))
			return true;
	}
	/* a distribution's package serves all its interpreters */
	return find_for_version(prefix, bin, "3", place);
}

static int start_interpreter(const struct place *place, int argc, char *argv[], int failure_fd)
{
	char failure[16];
	/*
	 * -I: no environment, no user directory, no current directory.  -S: no site.
	 * -B: a command never writes into the package.  utf8: a path is the same
	 * bytes whatever the caller's locale says.
	 */
	const char *const head[] = {
		place->interpreter, "-I", "-S", "-B", "-X", "utf8", place->program,
	};
	size_t used = sizeof(head) / sizeof(*head);
	const char **line = calloc(used + (size_t)argc + 3, sizeof(*line));

	if (!line)
		return fail("out of memory");
	memcpy(line, head, sizeof(head));
	for (int i = 1; i < argc; i++)
		line[used++] = argv[i];
	if (failure_fd >= 0) {
		snprintf(failure, sizeof(failure), "%d", failure_fd);
		line[used++] = "--failure-fd";
		line[used++] = failure;
	}
	execv(place->interpreter, (char *const *)line);
	free(line);
	dprintf(STDERR_FILENO, "ociruntime: cannot run %s: %m\n", place->interpreter);
	return 1;
}

int main(int argc, char *argv[])
{
	struct place place;
	int failure_fd = -1, status;

	if (getauxval(AT_SECURE))
		return fail("refusing to run set-user-id or with file capabilities");
	if (!fill_standard_descriptors())
		return fail("cannot open /dev/null for a closed standard descriptor");
	if (has_directory_for_stream())
		return fail("a standard stream is a directory (give it a file, or /dev/null)");
	status = answer(argc, argv, &failure_fd);
	if (status != FALL_BACK)
		return status;
	if (enters_cgroup(argv))
		begin_grace_period();
	if (!find_place(&place))
		return fail("its Python package or interpreter is not where it was installed "
			    "(is /proc mounted?)");
	return start_interpreter(&place, argc, argv, failure_fd);
}
