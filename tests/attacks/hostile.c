/*
 * hostile: the process of a container that wants to reach the host.
 *
 *   hostile MASKED... : READONLY...
 *
 * Prints one line for each thing that it got: an action, a tab, and the object.  It changes device
 * nodes outside its own /dev for good, so that the host's owner sees it; everything else it tries
 * with the value that is there, or opens without writing.
 */
#define _GNU_SOURCE
#include "hostile.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH 12
#define FILES 60000

static const char *who = "";
static int files;

void got(const char *action, const char *object)
{
	printf("%s%s\t%s\n", who, action, object);
	fflush(stdout);
}

int is_device(const struct stat *about)
{
	return S_ISCHR(about->st_mode) || S_ISBLK(about->st_mode);
}

/* A node on the container's own /dev, or its own terminal, is its to change. */
int is_own(const struct stat *about)
{
	struct stat dev;

	return stat("/dev", &dev) == 0 && dev.st_dev == about->st_dev;
}

/* --- metadata: through a path, which may be one in /proc/self/fd ------------------- */

void change_node(const char *path, const char *name)
{
	const struct timespec past[2] = {{1, 0}, {1, 0}};

	if (chmod(path, 0600) == 0)
		got("chmod", name);
	if (chown(path, 33, 34) == 0)
		got("chown", name);
	if (utimensat(AT_FDCWD, path, past, 0) == 0)
		got("utimes", name);
	if (setxattr(path, "trusted.hostile", "x", 1, 0) == 0)
		got("setxattr", name);
	if (setxattr(path, "security.capability", "x", 1, 0) == 0)
		got("setxattr", name);
}

void use_ioctls(int descriptor, const char *name)
{
	char letter = ' ';
	int flags;

	if (isatty(descriptor) && ioctl(descriptor, TIOCSTI, &letter) == 0)
		got("ioctl TIOCSTI", name);
	if (ioctl(descriptor, _IOR('f', 1, long), &flags) == 0 &&
	    ioctl(descriptor, _IOW('f', 2, long), &flags) == 0)
		got("ioctl SETFLAGS", name);
}

/* --- descriptors ----------------------------------------------------------------- */

static void try_descriptors(void)
{
	const struct timespec past[2] = {{1, 0}, {1, 0}};
	struct stat about;
	char path[64];
	char target[512];
	int descriptor;

	for (descriptor = 0; descriptor < 1024; descriptor++) {
		ssize_t size;

		if (fstat(descriptor, &about) != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
		size = readlink(path, target, sizeof(target) - 1);
		target[size < 0 ? 0 : size] = 0;
		if (descriptor > 2)
			got("descriptor", target);
		if (S_ISDIR(about.st_mode) && fchdir(descriptor) == 0) {
			got("directory", target);
			continue;
		}
		if (!is_device(&about) || is_own(&about) || isatty(descriptor))
			continue;
		if (fchmod(descriptor, 0600) == 0)
			got("fchmod", target);
		if (fchown(descriptor, 33, 34) == 0)
			got("fchown", target);
		if (futimens(descriptor, past) == 0)
			got("futimens", target);
		change_node(path, target);
		use_ioctls(descriptor, target);
	}
}

/* --- masks and read-only paths ------------------------------------------------------ */

static void try_directory(const char *path, const char *action)
{
	char made[600];
	struct dirent *entry;
	DIR *stream = opendir(path);

	if (!stream)
		return;
	while ((entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			got(action, path);
			break;
		}
	closedir(stream);
	snprintf(made, sizeof(made), "%s/hostile", path);
	if (mkdir(made, 0700) == 0)
		got("mkdir", made);
}

static void try_mask(const char *path)
{
	struct stat about;
	char byte;
	int opened;

	if (lstat(path, &about) != 0)
		return;
	if (S_ISDIR(about.st_mode)) {
		try_directory(path, "list");
		if (chmod(path, about.st_mode & 07777) == 0)
			got("chmod", path);
		return;
	}
	opened = open(path, O_RDONLY | O_NONBLOCK);
	if (opened >= 0 && read(opened, &byte, 1) > 0)
		got("read", path);
	if (opened >= 0)
		close(opened);
	if (is_device(&about) && !is_own(&about))
		change_node(path, path);
}

static void try_readonly(const char *path)
{
	struct stat about;
	int opened;

	if (lstat(path, &about) != 0)
		return;
	if (chmod(path, about.st_mode & 07777) == 0)
		got("chmod", path);
	if (S_ISDIR(about.st_mode))
		return;
	opened = open(path, O_WRONLY | O_NONBLOCK);
	if (opened < 0)
		return;
	got("write", path);
	close(opened);
}

/* --- files of /proc and /sys ---------------------------------------------------------- */

static void write_back(const char *path)
{
	char value[4096];
	ssize_t size;
	int opened = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW);

	if (opened < 0)
		return;
	size = pread(opened, value, sizeof(value), 0);
	got(size > 0 && pwrite(opened, value, size, 0) == size ? "set" : "open", path);
	close(opened);
}

/* A file whose mode lets no one write has no write handler in the kernel. */
static void try_file(const char *path)
{
	struct stat about;
	int opened;

	if (!strncmp(path, "/proc/sys/kernel/", 17) || !strncmp(path, "/proc/sys/fs/", 13)) {
		write_back(path);
		return;
	}
	opened = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW);
	if (opened < 0)
		return;
	if (fstat(opened, &about) == 0 && S_ISREG(about.st_mode) && (about.st_mode & 0222))
		got("write", path);
	close(opened);
}

static int is_process(const char *name)
{
	return strspn(name, "0123456789") == strlen(name) || !strcmp(name, "self") ||
	       !strcmp(name, "thread-self");
}

static void walk(const char *top, int depth)
{
	char path[1024];
	struct dirent *entry;
	DIR *stream = opendir(top);

	if (!stream)
		return;
	while ((entry = readdir(stream)) && files < FILES) {
		if (entry->d_name[0] == '.' || (depth == 0 && is_process(entry->d_name)))
			continue;
		snprintf(path, sizeof(path), "%.700s/%s", top, entry->d_name);
		files++;
		if (entry->d_type == DT_DIR && depth < DEPTH)
			walk(path, depth + 1);
		else if (entry->d_type == DT_REG)
			try_file(path);
	}
	closedir(stream);
}

/* Without CAP_SETFCAP uid 0 cannot be mapped; capabilities are there all the same. */
static void put(const char *path, const char *text)
{
	int opened = open(path, O_WRONLY);

	if (opened >= 0 && write(opened, text, strlen(text)) < 0)
		errno = 0;
	close(opened);
}

static char **arguments;

static void try_all(void)
{
	void (*attempt)(const char *) = try_mask;
	char **word;

	try_descriptors();
	try_devices();
	try_handles();
	try_namespaces();
	for (word = arguments; *word; word++) {
		if (!strcmp(*word, ":"))
			attempt = try_readonly;
		else
			attempt(*word);
	}
	walk("/proc", 0);
	walk("/sys", 0);
	try_processes();
	try_mounts(); /* last: it takes away what it can */
}

static int once_more(void)
{
	who = "nested ";
	files = 0;
	try_all();
	return 0;
}

/* With all capabilities, in namespaces that every user may create unless a filter forbids it. */
static int in_user_namespace(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) != 0)
		return 0;
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	put("/proc/self/gid_map", map);
	in_child(once_more);
	return 0;
}

int main(int count, char **words)
{
	(void)count;
	arguments = words + 1;
	alarm(60);
	try_all();
	in_child(in_user_namespace);
	got("done", "");
	return 0;
}
