/* The half of hostile that asks for powers: mounts, devices, other processes, namespaces. */
#define _GNU_SOURCE
#include "hostile.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOUNTS 256

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

void try_mounts(void)
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

void try_devices(void)
{
	static const char *const places[] = {"/", "/tmp", "/dev", "/dev/shm", "/run"};
	size_t index;

	for (index = 0; index < sizeof(places) / sizeof(places[0]); index++)
		try_devices_in(places[index]);
}

/* --- other processes ---------------------------------------------------------------- */

static void got_number(const char *action, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number);
	got(action, text);
}

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
void try_processes(void)
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

void try_handles(void)
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

int in_child(int (*task)(void))
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

void try_namespaces(void)
{
	if (in_child(unshare_mounts) == 0)
		got("unshare", "mount");
	if (in_child(unshare_network) == 0)
		got("unshare", "network");
	if (in_child(unshare_cgroup) == 0)
		got("unshare", "cgroup");
}
