/*
 * How a program of the package starts: it finds the interpreter and the package by its
 * own place, and becomes `python -I -S -B -X utf8 .../ociruntime/__main__.py ARGS`.
 *
 * A script would need `#!` with several arguments, which pip rewrites, or the
 * `site` module, whose start costs as much as the whole command.  Nothing here
 * looks at PATH or any other variable: a root tool must not be led elsewhere by
 * its caller's environment, and engines call it with none.
 */
#define _GNU_SOURCE

#include "launcher/interpreter.h"

#include "snapshot/thaw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* A packager who keeps the interpreter elsewhere says so: CPPFLAGS=-DINTERPRETER_DIR=... */
#ifndef INTERPRETER_DIR
#define INTERPRETER_DIR "/usr/bin"
#endif

/* An administrator makes this file to have every command start the interpreter anew. */
#define SNAPSHOT_SWITCH "/etc/ociruntime/no-snapshot"

enum { OLDEST_MINOR = 11, NEWEST_MINOR = 30 };

static int fail(const struct program *program, const char *message)
{
	dprintf(STDERR_FILENO, "%s: %s\n", program->name, message);
	return program->failure;
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

/* Says why not. */
bool may_run(const struct program *program)
{
	const char *reason = NULL;

	if (getauxval(AT_SECURE))
		reason = "refusing to run set-user-id or with file capabilities";
	else if (!fill_standard_descriptors())
		reason = "cannot open /dev/null for a closed standard descriptor";
	else if (has_directory_for_stream())
		reason = "a standard stream is a directory (give it a file, or /dev/null)";
	if (reason)
		fail(program, reason);
	return !reason;
}

/* Where they are. */
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

static bool find_program(const char *prefix, const char *version, const char *file,
			 char found[PATH_MAX])
{
	static const char *const layouts[] = {
		"%s/lib/python%s/site-packages/ociruntime/%s",
		"%s/lib/python%s/dist-packages/ociruntime/%s",
		"%s/local/lib/python%s/dist-packages/ociruntime/%s",
	};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (snprintf(found, PATH_MAX, layouts[i], prefix, version, file) < PATH_MAX &&
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

static bool find_place(const char *file, struct place *place)
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
		if (find_for_version(prefix, bin, version, file, place))
			return true;
	}
	/* a distribution's package serves all its interpreters */
	return find_for_version(prefix, bin, "3", file, place);
}

/* In one place for each user, whatever --root says (ociruntime/snapshot.py makes it). */
static bool find_snapshot(const struct program *program, char path[PATH_MAX])
{
	const char *directory = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");

	return directory && directory[0] == '/' &&
	       snprintf(path, PATH_MAX, "%s/ociruntime/%s", directory, program->snapshot) <
		       PATH_MAX &&
	       access(SNAPSHOT_SWITCH, F_OK) < 0;
}

/* Returns if there is none that fits. */
static void thaw_interpreter(const struct program *program, const struct place *place,
			     char **arguments)
{
	char path[PATH_MAX];

	if (find_snapshot(program, path))
		thaw(path, place->program, arguments, environ);
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
	const char **line = calloc(used + (size_t)argc + 3, sizeof(*line));

	if (!line)
		return fail(program, "out of memory");
	if (!find_place(program->file, &place)) {
		free(line);
		return fail(program, "its Python package or interpreter is not where it was "
				     "installed (is /proc mounted?)");
	}
	memcpy(line, head, sizeof(head));
	for (int i = 1; i < argc; i++)
		line[used++] = argv[i];
	if (failure_fd >= 0) {
		snprintf(failure, sizeof(failure), "%d", failure_fd);
		line[used++] = "--failure-fd";
		line[used++] = failure;
	}
	thaw_interpreter(program, &place, (char **)line + sizeof(head) / sizeof(*head) - 1);
	execv(place.interpreter, (char *const *)line);
	free(line);
	dprintf(STDERR_FILENO, "%s: cannot run %s: %m\n", program->name, place.interpreter);
	return program->failure;
}
