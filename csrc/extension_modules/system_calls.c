/* The system calls that Python cannot make itself. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
/* From <linux/mount.h>, which clashes with some versions of <sys/mount.h>. */
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000
#endif
#define SYS_statmount_number 457 /* statmount(2): the same on all architectures here */
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif

long oci_bpf(int command, void *attributes, unsigned int size)
{
	long result = syscall(SYS_bpf, command, attributes, size);

	return result < 0 ? -errno : result;
}

int oci_prctl(int option, unsigned long argument)
{
	int result = prctl(option, argument, 0, 0, 0);

	return result < 0 ? -errno : result;
}

int oci_signalfd(uint64_t signals)
{
	int fd = (int)syscall(SYS_signalfd4, -1, &signals, sizeof(signals),
			      SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int oci_setns(int fd, int kind)
{
	return setns(fd, kind) < 0 ? -errno : 0;
}

int oci_unshare(int kinds)
{
	return unshare(kinds) < 0 ? -errno : 0;
}

int oci_mount(const char *source, const char *target, const char *type, unsigned long flags,
	      const char *data)
{
	return mount(source, target, type, flags, data) < 0 ? -errno : 0;
}

int oci_clone_mount(const char *path, int user_namespace)
{
	struct {
		uint64_t set, clear, propagation, user_namespace;
	} attributes = { .set = MOUNT_ATTR_IDMAP, .user_namespace = (uint64_t)user_namespace };
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

int oci_move_mount(int fd, const char *target)
{
	long result = syscall(SYS_move_mount, fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);

	return result < 0 ? -errno : 0;
}

int oci_bind_privately(const char *path)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	return 0;
}

long long oci_unique_mount_id(int fd)
{
	struct statx found;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &found) < 0 ||
	    !(found.stx_mask & STATX_MNT_ID_UNIQUE))
		return 0;
	return (long long)found.stx_mnt_id;
}

/* The members of struct mnt_id_req and struct statmount (Linux 6.8) that are needed here. */
struct mount_request {
	uint32_t size;
	uint32_t spare;
	uint64_t id;
	uint64_t wanted;
};

struct mount_found {
	uint32_t size;
	uint32_t options;
	uint64_t mask;
	uint32_t before[6]; /* of the file system */
	uint64_t id;
	uint64_t parent;
	uint32_t number;
	uint32_t rest[113];
};

long long oci_mount_number(long long unique)
{
	const uint64_t basic = 2; /* STATMOUNT_MNT_BASIC */
	struct mount_request request = {
		.size = sizeof(request), .id = (uint64_t)unique, .wanted = basic
	};
	struct mount_found found = { 0 };

	if (syscall(SYS_statmount_number, &request, &found, sizeof(found), 0u) < 0)
		return -errno;
	return found.mask & basic ? (long long)found.number : -ENOSYS;
}

int oci_unshare_fs(void)
{
	return unshare(CLONE_FS) < 0 ? -errno : 0;
}

int oci_rename_noreplace(int old_dir, const char *old_name, int new_dir, const char *new_name)
{
	long result = syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, RENAME_NOREPLACE);

	return result < 0 ? -errno : 0;
}

int oci_syncfs(int fd)
{
	return syncfs(fd) < 0 ? -errno : 0;
}

int oci_detach_mount(const char *path)
{
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

int oci_inotify(void)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int oci_watch(int fd, const char *path, unsigned int events)
{
	int watch = inotify_add_watch(fd, path, events | IN_ONLYDIR);

	return watch < 0 ? -errno : watch;
}

int oci_unwatch(int fd, int watch)
{
	return inotify_rm_watch(fd, watch) < 0 ? -errno : 0;
}

int oci_own_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return -errno;
	return 0;
}

/*
 * Return a new, detached instance of a filesystem.  Uses numbers from <linux/mount.h>, which
 * clashes with some versions of <sys/mount.h>.
 */
static int detached_mount(const char *type)
{
	const int cloexec = 1, create = 6, nosuid_noexec = 2 | 8;
	int fs = (int)syscall(SYS_fsopen, type, cloexec), mount = -1, error;

	if (fs < 0)
		return -1;
	if (syscall(SYS_fsconfig, fs, create, NULL, NULL, 0) == 0)
		mount = (int)syscall(SYS_fsmount, fs, cloexec, nosuid_noexec);
	error = errno;
	close(fs);
	errno = error;
	return mount;
}

/* Mount sysfs in a mount namespace that ends at once, and open it as `place`. */
static bool mount_apart(int place)
{
	int fd = -1;

	if (unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
	    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
		fd = open("/sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && dup3(fd, place, O_CLOEXEC) >= 0 && close(fd) == 0;
}

/* The same where a filter forbids fsopen(2): a process that shares our descriptors mounts it. */
static int sysfs_by_mount(void)
{
	int place = open("/", O_PATH | O_CLOEXEC), status = -1;
	long child;

	if (place < 0)
		return -1;
	child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (child == 0)
		_exit(!mount_apart(place));
	if (child > 0 && waitpid((pid_t)child, &status, 0) == child && status == 0)
		return place;
	close(place);
	errno = EPERM;
	return -1;
}

int oci_own_sysfs(void)
{
	int fd = detached_mount("sysfs");

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = sysfs_by_mount();
	return fd < 0 ? -errno : fd;
}

int oci_own_null(void)
{
	static const char name[] = "null";
	int place = detached_mount("tmpfs"), fd = -1, error;

	if (place < 0)
		return -errno;
	/*
	 * Use the system call: glibc has mknodat() only since 2.33, and wheels must run with 2.28.
	 * Set the mode again: the umask has changed it.
	 */
	if (syscall(SYS_mknodat, place, name, S_IFCHR | 0666, makedev(1, 3)) == 0 &&
	    fchmodat(place, name, 0666, 0) == 0)
		fd = openat(place, name, O_RDWR | O_CLOEXEC);
	error = errno;
	close(place);
	return fd < 0 ? -error : fd;
}
