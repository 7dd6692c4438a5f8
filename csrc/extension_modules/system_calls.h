/* The few system calls that Python cannot make itself. */
#ifndef SYSTEM_CALLS_H
#define SYSTEM_CALLS_H

#include <stdint.h>

/* Call bpf(2); returns its result, or -errno. */
long oci_bpf(int command, void *attributes, unsigned int size);

/* Call prctl(2) with integer arguments; returns its result, or -errno. */
int oci_prctl(int option, unsigned long argument);

/* Open a non-blocking signalfd(2) for `signals` (bit N-1 for signal N); returns it, or -errno. */
int oci_signalfd(uint64_t signals);

/* Call setns(2); returns 0, or -errno. */
int oci_setns(int fd, int kind);

/* Call unshare(2) for the calling thread, and mount(2); both return 0, or -errno. */
int oci_unshare(int kinds);
int oci_mount(const char *source, const char *target, const char *type, unsigned long flags,
	      const char *data);

/*
 * Clone the mount at `path` without attaching it, with owners mapped as in `user_namespace`; returns
 * a descriptor, or -errno.
 */
int oci_clone_mount(const char *path, int user_namespace);

/* Attach such a mount; returns 0, or -errno. */
int oci_move_mount(int fd, const char *target);

/* Enter a new private mount namespace where `path` is a mount point; returns 0, or -errno. */
int oci_bind_privately(const char *path);

/* Return the unique id of the mount that `fd` is on, or 0 if the kernel is older than 6.8. */
long long oci_unique_mount_id(int fd);

/*
 * Return the mountinfo id of the mount with unique id `unique`; -errno on failure (-ENOENT: no such
 * mount).
 */
long long oci_mount_number(long long unique);

/* Unshare the calling thread's working directory, root and umask; returns 0, or -errno. */
int oci_unshare_fs(void);

/* Rename a file unless the new name exists (-EEXIST); returns 0, or -errno. */
int oci_rename_noreplace(int old_dir, const char *old_name, int new_dir, const char *new_name);

/* Call syncfs(2), and unmount `path` lazily (umount2(2)); both return 0, or -errno. */
int oci_syncfs(int fd);
int oci_detach_mount(const char *path);

/*
 * inotify(7): return a new non-blocking descriptor; add a watch for IN_* events in the directory
 * `path` and return its number; remove a watch and return 0.  All return -errno on failure.
 */
int oci_inotify(void);
int oci_watch(int fd, const char *path, unsigned int events);
int oci_unwatch(int fd, int watch);

/* Enter a new mount namespace that receives the host's mounts but propagates none back; returns 0, or
 * -errno. */
int oci_own_mounts(void);

/*
 * Open a null device for reading and writing, whose node is on a separate filesystem that is not
 * attached anywhere; returns a descriptor, or -errno.
 */
int oci_own_null(void);

/*
 * Create a sysfs with the devices of the calling thread's network namespace, attached nowhere;
 * returns a descriptor, or -errno.
 */
int oci_own_sysfs(void);

#endif
