/*
 * System calls and constants that older headers of the C library lack.
 *
 * <sys/mount.h> is left out on purpose: before glibc 2.37 it clashes with <linux/mount.h>, whose
 * mount API is the one used here.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef UMOUNT_NOFOLLOW
#define UMOUNT_NOFOLLOW 8
#endif
#ifndef STATX_MNT_ID_UNIQUE /* Linux 6.8 */
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif
#ifndef SYSFS_MAGIC
#define SYSFS_MAGIC 0x62656572
#endif
#ifndef PROC_SUPER_MAGIC
#define PROC_SUPER_MAGIC 0x9fa0
#endif

/* The record that getdents64(2) returns. */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static inline int sys_open_tree(int dir, const char *path, unsigned int flags)
{
	return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path,
				 unsigned int flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_fsopen(const char *fstype, unsigned int flags)
{
	return (int)syscall(SYS_fsopen, fstype, flags);
}

static inline int sys_fsconfig(int fs, unsigned int command, const char *key, const void *value,
			       int aux)
{
	return (int)syscall(SYS_fsconfig, fs, command, key, value, aux);
}

static inline int sys_fsmount(int fs, unsigned int flags, unsigned int attributes)
{
	return (int)syscall(SYS_fsmount, fs, flags, attributes);
}

static inline int sys_fspick(int dir, const char *path, unsigned int flags)
{
	return (int)syscall(SYS_fspick, dir, path, flags);
}

static inline int sys_mount_setattr(int dir, const char *path, unsigned int flags,
				    struct mount_attr *attributes)
{
	return (int)syscall(SYS_mount_setattr, dir, path, flags, attributes, sizeof(*attributes));
}

static inline int sys_mount(const char *source, const char *target, const char *fstype,
			    unsigned long flags, const void *data)
{
	return (int)syscall(SYS_mount, source, target, fstype, flags, data);
}

static inline int sys_umount(const char *target, int flags)
{
	return (int)syscall(SYS_umount2, target, flags);
}

static inline int sys_pivot_root(const char *new_root, const char *old_root)
{
	return (int)syscall(SYS_pivot_root, new_root, old_root);
}

static inline int sys_openat2(int dir, const char *path, struct open_how *how)
{
	return (int)syscall(SYS_openat2, dir, path, how, sizeof(*how));
}

static inline int sys_close_range(unsigned int first, unsigned int last, unsigned int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

/* clone(2) as a system call: a seccomp filter may refuse what the C library's fork(3) adds. */
static inline long sys_clone(unsigned long flags)
{
#if defined(__s390x__)
	return syscall(SYS_clone, NULL, flags, NULL, NULL, 0);
#else
	return syscall(SYS_clone, flags, NULL, NULL, NULL, 0);
#endif
}

static inline int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

#endif
