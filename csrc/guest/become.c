/*
 * Set up a fresh process and execute the app's program.
 *
 * An app's description is a list of NUL-terminated strings; the first letter of each is its type:
 *
 *   r  the directory that becomes the root         o  the root is read-only
 *   m  a mount: source; then four strings: target, kind ("bind" or a file system), flags, options
 *   x  a path to mask                              y  a path to make read-only
 *   l  a limit: a file of the cgroup; then one string: the value written to it
 *   u  user   g  group   G  a supplementary group  b  a capability to drop
 *   n  no_new_privs                                w  working directory
 *   e  a variable                                  a  an argument
 */
#define _GNU_SOURCE
#include "guest.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MOST 64 /* bind mounts, supplementary groups */

#define CLONE_TREE 1u	       /* OPEN_TREE_CLONE */
#define RECURSIVE 0x8000u      /* AT_RECURSIVE */
#define FROM_DESCRIPTOR 0x4u   /* MOVE_MOUNT_F_EMPTY_PATH */

static int report_fd = -1; /* where `fail` writes its message */

static _Noreturn void fail(const char *what, const char *which)
{
	char line[512];
	char reason[128];
	int size;

	(void)snprintf(reason, sizeof(reason), "%s", strerror(errno));
	reason[0] = (char)tolower((unsigned char)reason[0]);
	size = snprintf(line, sizeof(line), "%s %s: %s", what, which, reason);
	(void)!write(report_fd, line, size < (int)sizeof(line) ? (size_t)size : sizeof(line) - 1);
	_exit(1);
}

static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0755);
		*slash = '/';
	}
}

static void make_target(const char *target, bool directory)
{
	char path[4096];
	int fd;

	if (access(target, F_OK) == 0)
		return;
	(void)snprintf(path, sizeof(path), "%s", target);
	make_parents(path);
	if (directory) {
		(void)mkdir(path, 0755);
		return;
	}
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd >= 0)
		close(fd);
}

struct mounting {
	const char *source, *target, *kind, *options;
	unsigned long flags;
};

static struct mounting read_mounting(const char *at)
{
	struct mounting mounting = { .source = at + 1 };

	mounting.target = at += strlen(at) + 1;
	mounting.kind = at += strlen(at) + 1;
	mounting.flags = strtoul(at += strlen(at) + 1, NULL, 10);
	mounting.options = at + strlen(at) + 1;
	return mounting;
}

static bool is_bind(const struct mounting *mounting)
{
	return strcmp(mounting->kind, "bind") == 0;
}

/* Open the sources of the mounts before the root is changed; the targets are opened after that. */
static void open_sources(const char *text, size_t size, int trees[MOST])
{
	unsigned count = 0;

	for (const char *at = text; at < text + size; at = next_record(at)) {
		struct mounting mounting;

		if (at[0] != 'm')
			continue;
		mounting = read_mounting(at);
		if (!is_bind(&mounting))
			continue;
		if (count == MOST) {
			errno = E2BIG;
			fail("mount", mounting.target);
		}
		trees[count] = (int)syscall(SYS_open_tree, AT_FDCWD, mounting.source,
					    CLONE_TREE | RECURSIVE | O_CLOEXEC);
		if (trees[count++] < 0)
			fail("open", mounting.source);
	}
}

static void attach(int tree, const struct mounting *mounting)
{
	struct stat status;
	unsigned long again = MS_REMOUNT | MS_BIND | mounting->flags;

	if (fstat(tree, &status) < 0)
		fail("stat", mounting->source);
	make_target(mounting->target, S_ISDIR(status.st_mode));
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, mounting->target, FROM_DESCRIPTOR) < 0)
		fail("mount", mounting->target);
	close(tree);
	if (mounting->flags && mount(NULL, mounting->target, NULL, again, NULL) < 0)
		fail("remount", mounting->target);
}

/* Move the app's root over the machine's, so that no path leads back to the machine's root. */
static void change_root(const char *root)
{
	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("mount", "/");
	if (mount(root, root, NULL, MS_BIND, NULL) < 0 || chdir(root) < 0)
		fail("mount", root);
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		fail("change the root to", root);
}

static void make_devices(void)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} devices[] = {
		{ "/dev/null", 1, 3 },	 { "/dev/zero", 1, 5 },	   { "/dev/full", 1, 7 },
		{ "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 },
	};
	static const char *const links[][2] = {
		{ "pts/ptmx", "/dev/ptmx" },	     { "/proc/self/fd", "/dev/fd" },
		{ "/proc/self/fd/0", "/dev/stdin" }, { "/proc/self/fd/1", "/dev/stdout" },
		{ "/proc/self/fd/2", "/dev/stderr" },
	};

	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		dev_t number = makedev(devices[i].major, devices[i].minor);

		if (mknod(devices[i].path, S_IFCHR | 0666, number) < 0 && errno != EEXIST)
			fail("create", devices[i].path);
		(void)chmod(devices[i].path, 0666);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlink(links[i][0], links[i][1]) < 0 && errno != EEXIST)
			fail("create", links[i][1]);
}

static void hide(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return;
	if (S_ISDIR(status.st_mode) ? mount("none", path, "tmpfs", MS_RDONLY, "size=0k") < 0 :
				      mount("/dev/null", path, NULL, MS_BIND, NULL) < 0)
		fail("mask", path);
}

static void protect(const char *path)
{
	if (access(path, F_OK) < 0)
		return;
	if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		fail("make read-only", path);
}

static void mount_kernels(const struct mounting *it)
{
	make_target(it->target, true);
	if (mount(it->source, it->target, it->kind, it->flags, it->options) < 0)
		fail("mount", it->target);
	if (strcmp(it->target, "/dev") == 0)
		make_devices();
}

static void arrange_files(const char *text, size_t size)
{
	int trees[MOST] = { 0 };
	unsigned next = 0;
	bool closed = false;

	open_sources(text, size, trees);
	for (const char *at = text; at < text + size; at = next_record(at))
		if (at[0] == 'r') {
			change_root(at + 1);
		} else if (at[0] == 'o') {
			closed = true;
		} else if (at[0] == 'm') {
			struct mounting mounting = read_mounting(at);

			if (is_bind(&mounting))
				attach(trees[next++], &mounting);
			else
				mount_kernels(&mounting);
		} else if (at[0] == 'x') {
			hide(at + 1);
		} else if (at[0] == 'y') {
			protect(at + 1);
		} else if (at[0] == 'w') {
			make_target(at + 1, true);
		}
	if (closed && mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		fail("remount", "/");
}

/* Set the groups before the user: a process that is no longer root cannot change its groups. */
static void change_identity(const char *text, size_t size)
{
	gid_t groups[MOST], group = 0;
	size_t count = 0;
	uid_t user = 0;
	bool quiet = false;

	for (const char *at = text; at < text + size; at = next_record(at)) {
		unsigned number = (unsigned)strtoul(at + 1, NULL, 10);

		if (at[0] == 'u')
			user = number;
		else if (at[0] == 'g')
			group = number;
		else if (at[0] == 'G' && count < MOST)
			groups[count++] = number;
		else if (at[0] == 'n')
			quiet = true;
		else if (at[0] == 'b')
			(void)prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
	}
	if (setgroups(count, groups) < 0 || setresgid(group, group, group) < 0 ||
	    setresuid(user, user, user) < 0)
		fail("set", "the user and groups");
	if (quiet && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("set", "no_new_privs");
}

/* Return the strings of this type in the description, as a NULL-terminated vector. */
static char **strings(char *text, size_t size, char letter)
{
	size_t count = 0;
	char **found = calloc(size + 1, sizeof(*found));

	for (char *at = text; found && at < text + size; at += next_record(at) - at)
		if (at[0] == letter)
			found[count++] = at + 1;
	if (found == NULL)
		fail("allocate", "the arguments");
	return found;
}

void become_app(char *text, size_t size, int report)
{
	char **arguments, **directories;

	report_fd = report;
	if (unshare(CLONE_NEWNS) < 0)
		fail("create", "the mount namespace");
	arrange_files(text, size);
	arguments = strings(text, size, 'a');
	directories = strings(text, size, 'w');
	environ = strings(text, size, 'e');
	change_identity(text, size);
	if (directories[0] != NULL && chdir(directories[0]) < 0)
		fail("chdir to", directories[0]);
	(void)umask(022);
	if (arguments[0] == NULL) {
		errno = ENOENT;
		fail("execute", "the app");
	}
	(void)execvp(arguments[0], arguments);
	fail("execute", arguments[0]);
}
