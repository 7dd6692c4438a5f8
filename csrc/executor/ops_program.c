/* Operations for the program: find it, wait for `start`, and execute it. */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#define PASSWD_LIMIT (1 << 20)

/* Return the home directory of `uid` in a line NAME:PW:UID:GID:GECOS:HOME:SHELL, or NULL. */
static const char *home_in_line(char *line, uint32_t uid)
{
	char *field[7];
	uint32_t number;
	int count = 0;

	for (char *at = line; at && count < 7; count++) {
		field[count] = at;
		at = strchr(at, ':');
		if (at)
			*at++ = '\0';
	}
	if (count < 6 || !text_number(field[2], &number) || number != uid || field[5][0] != '/')
		return NULL;
	return field[5];
}

/* Search the complete lines of `text`; return the remainder after the last one. */
static char *scan_lines(char *text, uint32_t uid, const char **home)
{
	char *end;

	while (!*home && (end = strchr(text, '\n'))) {
		*end = '\0';
		*home = home_in_line(text, uid);
		text = end + 1;
	}
	return text;
}

/*
 * Open /etc/passwd of the image, which may be a FIFO, a device or endless: open without blocking,
 * accept only a regular file, limit the size.
 */
static int open_passwd(void)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = open_below(root, "etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY,
			    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat node;

	close(root);
	if (fd >= 0 && (fstat(fd, &node) < 0 || !S_ISREG(node.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void set_home(struct executor *x, const char *home)
{
	struct text entry = text_in(x->home, sizeof(x->home));

	text_add(&entry, "HOME=");
	text_add(&entry, home);
	x->has_home = true;
}

int run_home(struct executor *x, struct op_home *op)
{
	static char text[8192];
	const char *home = NULL;
	size_t kept = 0, total = 0;
	int fd = open_passwd();

	while (fd >= 0 && !home && total < PASSWD_LIMIT) {
		ssize_t size = read(fd, text + kept, sizeof(text) - 2 - kept);
		char *rest;

		if (size < 0)
			break;
		total += (size_t)size;
		kept += (size_t)size;
		if (size == 0)
			text[kept++] = '\n'; /* the last line may lack its end */
		text[kept] = '\0';
		rest = scan_lines(text, op->uid, &home);
		if (home || size == 0)
			break;
		kept = strlen(rest);
		if (kept >= sizeof(text) - 2)
			kept = 0; /* a line that does not fit is not an entry */
		memmove(text, rest, kept);
	}
	set_home(x, home ? home : "/");
	if (fd >= 0)
		close(fd);
	return 0;
}

int run_listen_pid(struct executor *x, struct op_listen_pid *op)
{
	struct text entry = text_in(x->listen_pid, sizeof(x->listen_pid));

	(void)op;
	text_add(&entry, "LISTEN_PID=");
	text_add_number(&entry, (uint32_t)getpid(), 10);
	x->has_listen_pid = true;
	return 0;
}

int run_umask(struct executor *x, struct op_umask *op)
{
	(void)x;
	umask((mode_t)op->mask);
	return 0;
}

/*
 * Return true if the working directory is inside the root: the kernel marks any other as
 * unreachable (CVE-2024-21626).
 */
static bool inside_root(void)
{
	char path[PATH_MAX];

	return syscall(SYS_getcwd, path, sizeof(path)) > 0 && path[0] == '/';
}

/*
 * The plan has two chdirs: root may enter a directory that the user may not enter, and on a network
 * filesystem the user may enter a directory that root may not enter.
 */
int run_chdir(struct executor *x, struct op_chdir *op)
{
	if (!x->in_directory && chdir(op->path) < 0) {
		if (op->optional && (errno == EACCES || errno == EPERM))
			return 0;
		return fail(x, "chdir", op->path);
	}
	x->in_directory = true;
	if (!inside_root()) {
		errno = EPERM;
		return fail(x, "verify", op->path);
	}
	return 0;
}

/*
 * Before Linux 5.8, and under filters that do not know faccessat2(2), faccessat(2) checks the real
 * ids.  The effective ids are the same: the executor sets all of them together.
 */
static int may_execute(const char *path)
{
	int result = faccessat(AT_FDCWD, path, X_OK, AT_EACCESS);

	if (result < 0 && (errno == ENOSYS || errno == EPERM))
		result = access(path, X_OK);
	return result;
}

static int check_executable(const char *path)
{
	struct stat node;

	if (stat(path, &node) < 0)
		return -1;
	if (S_ISDIR(node.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (!S_ISREG(node.st_mode)) {
		errno = EACCES;
		return -1;
	}
	return may_execute(path);
}

/* Build one candidate path; an empty entry of PATH is the current directory. */
static bool join_path(char *to, size_t size, const char *directory, size_t length, const char *file)
{
	struct text path = text_in(to, size);

	text_add_part(&path, directory, length);
	text_add(&path, length ? "/" : "./");
	text_add(&path, file);
	return path.whole;
}

static int search(struct executor *x, const char *file, const char *path)
{
	int error = ENOENT;

	for (;;) {
		size_t length = strcspn(path, ":");

		if (join_path(x->program, sizeof(x->program), path, length, file)) {
			if (check_executable(x->program) == 0)
				return 0;
			if (errno == EACCES)
				error = EACCES; /* remember it and continue, like execvp(3) */
			else if (errno == ENOMEM || errno == EIO)
				return fail(x, "search", file); /* the file may exist */
		}
		if (path[length] == '\0')
			break;
		path += length + 1;
	}
	errno = error;
	return fail(x, "search", file);
}

int run_find_executable(struct executor *x, struct op_find_executable *op)
{
	x->has_program = true;
	if (!strchr(op->file, '/'))
		return search(x, op->file, op->path);
	if (strlen(op->file) >= sizeof(x->program)) {
		errno = ENAMETOOLONG;
		return fail(x, "find", op->file);
	}
	strcpy(x->program, op->file);
	return check_executable(x->program) < 0 ? fail(x, "find", op->file) : 0;
}

int run_wait_start(struct executor *x, struct op_wait_start *op)
{
	(void)op;
	for (;;) {
		int starter = accept4(x->init_fd, NULL, NULL, SOCK_CLOEXEC);
		struct message order;
		ssize_t size;

		if (starter < 0) {
			if (passes(errno))
				continue;
			return fail(x, "accept4", "start gate");
		}
		do {
			size = recv(starter, &order, sizeof(order), 0);
		} while (size < 0 && passes(errno));
		if (size >= (ssize_t)MESSAGE_SHORT && order.kind == MESSAGE_GO) {
			/* execve(2) closes the gate; until then the container is not running. */
			x->report_fd = starter;
			return 0;
		}
		/* The client has only checked whether this process still waits. */
		close(starter);
	}
}

/*
 * Announce the exec, so that an end of file without a failure report means success.  If `start` was
 * killed in the meantime, continue, because it had sent GO.  If `exec` was killed, fail: its caller
 * assumes a failure, and no command would ever end the program.
 */
void announce_exec(struct executor *x)
{
	if (!x->announced && send_short(x, x->report_fd, MESSAGE_EXEC, 0, -1) < 0 && x->joined)
		_exit(1);
	x->announced = true;
}

int run_exec(struct executor *x, struct op_exec *op)
{
	char **end;

	errno = EINVAL;
	if (op->args.count == 0)
		return fail(x, "execve", "");
	if (apply_late_limits(x) < 0)
		return -1;
	announce_exec(x);
	/* The list has room for two more. */
	end = op->env.items + op->env.count;
	if (x->has_home)
		*end++ = x->home;
	if (x->has_listen_pid)
		*end++ = x->listen_pid;
	execve(x->has_program ? x->program : op->args.items[0], op->args.items, op->env.items);
	return fail(x, "execve", op->args.items[0]);
}
