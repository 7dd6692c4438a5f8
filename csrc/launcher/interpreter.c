/*
 * Start a program of the package: find the interpreter and the package by the launcher's own
 * location, and execute `python -I -S -B -X utf8 .../ociruntime/__main__.py ARGS`.
 *
 * A script would need `#!` with several arguments, which pip rewrites, or the `site` module, whose
 * start costs as much as the whole command.  Nothing here reads PATH or any other variable: a
 * caller's environment must not redirect a root tool, and engines pass an empty environment.
 */
#define _GNU_SOURCE

#include "launcher/interpreter.h"

#include "snapshot/thaw.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A packager sets another location with CPPFLAGS=-DINTERPRETER_DIR=... */
#ifndef INTERPRETER_DIR
#define INTERPRETER_DIR "/usr/bin"
#endif

/* The installation prefix; setup.py (build_native) overrides it if it knows a better one. */
#ifndef INSTALLED_PREFIX
#define INSTALLED_PREFIX "/usr/local"
#endif

/* If an administrator creates this file, every command starts the interpreter anew. */
#define SNAPSHOT_SWITCH "/etc/ociruntime/no-snapshot"

enum { OLDEST_MINOR = 11, NEWEST_MINOR = 30 };

/* Errors of the interpreter's exec that the user can fix. */
static const struct {
	int number;
	const char *reason;
} reasons[] = {
	{ E2BIG, "the arguments and the environment are too long" },
	{ EACCES, "permission denied" },
	{ ENOENT, "no such file" },
	{ ENOEXEC, "not a program for this processor" },
	{ ENOMEM, "out of memory" },
};

static int fail(const struct program *program, const char *message)
{
	static char line[PATH_MAX + 256];

	text_join(line, sizeof(line), program->name, ": ", message, "\n", NULL);
	(void)!write(STDERR_FILENO, line, strlen(line));
	return program->failure;
}

static int fail_to_execute(const struct program *program, const char *interpreter, int number)
{
	const char *reason = "the kernel refuses to execute the file";
	static char message[PATH_MAX + 128];

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].number == number)
			reason = reasons[i].reason;
	text_join(message, sizeof(message), "run \"", interpreter, "\": ", reason, NULL);
	return fail(program, message);
}

/*
 * Open /dev/null as each closed standard descriptor.  Otherwise the next file that is opened, such
 * as a state file, would become descriptor 0, 1 or 2, and a message could overwrite it.
 * `directory` tells whether one is a directory: the interpreter would abort with a dump.
 */
static bool fill_standard_descriptors(bool *directory)
{
	struct stat status;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &status) == 0)
			*directory = *directory || S_ISDIR(status.st_mode);
		else if (errno == EBADF && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* Check the environment; print the reason and return false if it is not safe to start. */
bool may_run(const struct program *program)
{
	const char *reason = NULL;
	bool directory = false;

	if (getauxval(AT_SECURE))
		reason = "refusing to run setuid or with file capabilities (remove these from "
			 "the program)";
	else if (!fill_standard_descriptors(&directory))
		reason = "cannot open /dev/null for a closed standard descriptor";
	else if (directory)
		reason = "a standard stream is a directory (give it a file, or /dev/null)";
	if (reason)
		fail(program, reason);
	return !reason;
}

/*
 * The minimum that the interpreter needs to report errors itself.  With less, it prints a
 * traceback, or the kernel kills it while loading it.
 */
enum { FREE_DESCRIPTORS = 2, FREE_ADDRESS_SPACE = 12 << 20 };

static bool has_free_descriptors(void)
{
	int opened[FREE_DESCRIPTORS], count = 0;

	while (count < FREE_DESCRIPTORS) {
		opened[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
		if (opened[count] < 0)
			break;
		count++;
	}
	for (int i = 0; i < count; i++)
		close(opened[i]);
	return count == FREE_DESCRIPTORS;
}

static bool has_free_address_space(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *memory = mmap(NULL, FREE_ADDRESS_SPACE, PROT_NONE, flags, -1, 0);

	return memory != MAP_FAILED && munmap(memory, FREE_ADDRESS_SPACE) == 0;
}

/* Return what the interpreter lacks to start, NULL if it has enough. */
static const char *find_shortage(void)
{
	if (!has_free_descriptors())
		return "cannot start the interpreter: too many open files (raise the limit on open "
		       "files, ulimit -n)";
	if (!has_free_address_space())
		return "cannot start the interpreter: out of memory (raise the limit on address "
		       "space, ulimit -v)";
	return NULL;
}

/* Locations of the interpreter and the package. */
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

static bool read_link(const char *path, char target[PATH_MAX])
{
	ssize_t length = readlink(path, target, PATH_MAX - 1);

	target[length > 0 ? length : 0] = '\0';
	return length > 0;
}

/* Resolve a path like realpath(3), by asking the kernel for the name of an open file. */
static bool find_real_path(const char *path, char found[PATH_MAX])
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	char data[64];
	struct text link = text_in(data, sizeof(data));
	bool read;

	if (fd < 0)
		return false;
	text_add_fd(&link, fd);
	read = read_link(data, found);
	close(fd);
	return read;
}

/* Use the real path: the interpreter of a virtual environment then need not read pyvenv.cfg. */
static bool find_interpreter(const char *directory, const char *version, char found[PATH_MAX])
{
	char path[PATH_MAX];

	return text_join(path, sizeof(path), directory, "/python", version, NULL) &&
	       access(path, X_OK) == 0 && find_real_path(path, found);
}

static bool find_program(const char *prefix, const char *version, const char *file,
			 char found[PATH_MAX])
{
	static const char *const layouts[][2] = { /* the text around the version */
		{ "/lib/python", "/site-packages/ociruntime/" },
		{ "/lib/python", "/dist-packages/ociruntime/" },
		{ "/local/lib/python", "/dist-packages/ociruntime/" },
	};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (text_join(found, PATH_MAX, prefix, layouts[i][0], version, layouts[i][1], file,
			      NULL) &&
		    access(found, R_OK) == 0)
			return true;
	return false;
}

static bool find_for_version(const char *prefix, const char *bin, const char *version,
			     const char *file, struct place *place)
{
	return find_program(prefix, version, file, place->program) &&
	       (find_interpreter(bin, version, place->interpreter) ||
		find_interpreter(INTERPRETER_DIR, version, place->interpreter));
}

static bool find_in(const char *prefix, const char *bin, const char *file, struct place *place)
{
	char version[16];

	for (uint32_t minor = OLDEST_MINOR; minor <= NEWEST_MINOR; minor++) {
		struct text text = text_in(version, sizeof(version));

		text_add(&text, "3.");
		text_add_number(&text, minor, 10);
		if (find_for_version(prefix, bin, version, file, place))
			return true;
	}
	/* a distribution's package serves all its interpreters */
	return find_for_version(prefix, bin, "3", file, place);
}

/* Find the package beside the program or, for a copy of the program, where it was installed. */
static bool find_place(const char *file, struct place *place)
{
	static const char *const installed[] = { INSTALLED_PREFIX, "/usr/local", "/usr" };
	char prefix[PATH_MAX], bin[PATH_MAX];

	if (read_link("/proc/self/exe", bin) && cut_last_name(bin) &&
	    cut_last_name(strcpy(prefix, bin)) && find_in(prefix, bin, file, place))
		return true;
	for (size_t i = 0; i < sizeof(installed) / sizeof(*installed); i++)
		if (text_join(bin, sizeof(bin), installed[i], "/bin", NULL) &&
		    find_in(installed[i], bin, file, place))
			return true;
	return false;
}

/*
 * Find the snapshot in the user's directory, which ociruntime/startup/snapshot.py creates; --root
 * does not change it.
 */
static bool find_snapshot(const struct program *program, char path[PATH_MAX])
{
	const char *directory = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");

	return directory && directory[0] == '/' &&
	       text_join(path, PATH_MAX, directory, "/ociruntime/", program->snapshot, NULL) &&
	       access(SNAPSHOT_SWITCH, F_OK) < 0;
}

/* Start from a snapshot; return if there is no valid one. */
static void thaw_interpreter(const struct program *program, const struct place *place,
			     char **arguments)
{
	char path[PATH_MAX];

	if (find_snapshot(program, path))
		thaw(path, place->program, arguments, environ);
}

/* Block SIGINT: while the interpreter starts, it responds to SIGINT with a traceback. */
static void block_interrupt(void)
{
	const uint64_t mask = (uint64_t)1 << (SIGINT - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
}

int become_interpreter(const struct program *program, int argc, char *argv[], int failure_fd)
{
	static struct place place;
	char failure[16];
	/*
	 * -I: no environment, no user directory, no current directory.  -S: no site.
	 * -B: a command never writes into the package.  utf8: a path is the same
	 * bytes whatever the caller's locale says.
	 */
	const char *const head[] = {
		place.interpreter, "-I", "-S", "-B", "-X", "utf8", place.program,
	};
	size_t used = sizeof(head) / sizeof(*head);
	struct text number = text_in(failure, sizeof(failure));
	const char *line[sizeof(head) / sizeof(*head) + (size_t)argc + 3];
	const char *shortage = find_shortage();

	if (shortage)
		return fail(program, shortage);
	if (!find_place(program->file, &place))
		return fail(program, "cannot find its Python package: not beside this program, in "
				     "/usr/local or in /usr (install it there, or make a symbolic "
				     "link to the installed program)");
	memcpy(line, head, sizeof(head));
	for (int i = 1; i < argc; i++)
		line[used++] = argv[i];
	if (failure_fd >= 0) {
		text_add_number(&number, (uint32_t)failure_fd, 10);
		line[used++] = "--failure-fd";
		line[used++] = failure;
	}
	line[used] = NULL;
	thaw_interpreter(program, &place, (char **)line + sizeof(head) / sizeof(*head) - 1);
	if (program->unblocks_interrupt)
		block_interrupt();
	execve(place.interpreter, (char *const *)line, environ);
	return fail_to_execute(program, place.interpreter, errno);
}
