/* The few system calls that Python cannot make itself. */
#ifndef SHIM_H
#define SHIM_H

/* One start of the executor.  -1 means "none" in the last two descriptors. */
struct oci_spawn {
	int executor_fd;	   /* its program, a sealed memory file */
	int plan_fd;		   /* the plan, read by it */
	int sync_fd;		   /* its end of the socket pair */
	int init_fd;		   /* start gate, or pidfd of the process to join */
	int cgroup_fd;		   /* v2 directory to be born in, or -1 */
	int times_fd;		   /* where it notes when its operations began, or -1 */
	int streams[3];		   /* what it has as descriptors 0, 1 and 2 */
	unsigned long clone_flags; /* CLONE_NEW* */
	int pid;		   /* out */
	int pidfd;		   /* out */
	const char *failed;	   /* out: the call that failed */
};

/* 0, or -errno with `failed` set. */
int oci_spawn(struct oci_spawn *spawn);

/* bpf(2): its result, or -errno. */
long oci_bpf(int command, void *attributes, unsigned int size);

/* prctl(2) with integer arguments: its result, or -errno. */
int oci_prctl(int option, unsigned long argument);

/* setns(2): 0, or -errno. */
int oci_setns(int fd, int kind);

/* unshare(2) for the calling thread, and mount(2): 0, or -errno. */
int oci_unshare(int kinds);
int oci_mount(const char *source, const char *target, const char *type, unsigned long flags,
	      const char *data);

/*
 * The mount at `path` once more, nowhere attached, with owners mapped as in `user_namespace`:
 * a descriptor, or -errno.
 */
int oci_clone_mount(const char *path, int user_namespace);

/* Attach such a mount: 0, or -errno. */
int oci_move_mount(int fd, const char *target);

/* Enter a new private mount namespace in which `path` is a mount on itself: 0, or -errno. */
int oci_bind_privately(const char *path);

/* The number of the mount that `fd` is on, never used again; 0: the kernel is older than 6.8. */
long long oci_unique_mount_id(int fd);

/* The number in mountinfo of the mount with that unique id: or -errno, -ENOENT if there is none. */
long long oci_mount_number(long long unique);

/* unshare(2) of what CLONE_FS shares, for the calling thread: 0, or -errno. */
int oci_unshare_fs(void);

/* renameat2(2) that fails with EEXIST instead of replacing something: 0, or -errno. */
int oci_rename_noreplace(int old_dir, const char *old_name, int new_dir, const char *new_name);

/* syncfs(2), and umount2(2) of what is mounted at `path`, even if it is in use: 0, or -errno. */
int oci_syncfs(int fd);
int oci_detach_mount(const char *path);

/*
 * inotify(7): a new descriptor that does not block; a watch of `path`, which must be a directory,
 * for IN_* events; the end of a watch.  Descriptor, number of the watch, 0; or -errno.
 */
int oci_inotify(void);
int oci_watch(int fd, const char *path, unsigned int events);
int oci_unwatch(int fd, int watch);

/* Enter a new private mount namespace that receives the host's mounts but propagates none back: 0, or
 * -errno. */
int oci_own_mounts(void);

/*
 * Open a null device for reading and writing whose node is on a separate filesystem that is mounted
 * nowhere: a descriptor, or -errno.
 */
int oci_own_null(void);

/*
 * A sysfs that shows the devices of the calling thread's network namespace and is mounted nowhere:
 * a descriptor, or -errno.
 */
int oci_own_sysfs(void);

#endif
