/*
 * The executor carries out a plan inside the container's namespaces and then executes the
 * container's program.  It makes no decisions: the compiler of the plan has made them.
 *
 * Each operation is a function `run_NAME(executor, op)` that returns 0, or -1 after `fail()` has
 * recorded the kernel's error.
 */
#ifndef EXECUTOR_H
#define EXECUTOR_H

#define _GNU_SOURCE

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "message.h"
#include "plan.h"
#include "text.h"

/* A resource limit of the program, set late because it could stop the executor. */
struct late_limit {
	uint32_t resource;
	bool set;
	uint64_t soft;
	uint64_t hard;
};

#define LATE_LIMITS 3

/* A mount made by an earlier operation; later operations on its target verify its id. */
struct made_mount {
	const char *target;
	uint64_t id;
	bool of_kernel; /* procfs or sysfs */
};

#define GO_FILES 32u /* must match ociruntime/runtime/executor/protocol.py */

/* The descriptors that the runtime has sent with GO. */
struct go_files {
	bool lost; /* the kernel dropped some of them: this process's descriptor limit is too low */
	unsigned int count;
	int fds[GO_FILES];
};

#define MADE_MOUNTS 1024u /* if there are more mounts, the oldest are forgotten */

struct executor {
	uint32_t step;	  /* index of the current operation */
	int sync_fd;	  /* socket to the creating runtime; -1 once it has detached */
	int init_fd;	  /* start gate's listening socket; for exec: the init's pidfd */
	int report_fd;	  /* socket for failures: sync_fd, later the connection of `start` */
	int root_fd;	  /* the container's root; targets are resolved in it */
	int proc_fd;	  /* the host's /proc, verified */
	int null_fd;	  /* the host's /dev/null, verified */
	int pid_fd;	  /* pid namespace to join, which is entered by a fork at the end; or -1 */
	int mask_fd;	  /* the empty filesystem that covers all masked directories; or -1 */
	int kernel_fd;	  /* the procfs or sysfs that was made at `kernel_point`; or -1 */
	const char *kernel_point; /* target of the last mount below which a path was restricted */
	int preserve_fds; /* descriptors from 3 upwards that the program keeps */
	int slots[SLOTS]; /* namespace files, id maps and detached trees */
	bool own_mounts;  /* this process is the only one in the mount namespace */
	bool shared_mounts; /* its mount namespace is new, but mounts still propagate to the host */
	bool has_mount_api;
	bool entered;	  /* the container's root is the process's root */
	bool joined;	  /* this process has joined the namespaces of an existing container */
	bool in_directory;
	bool announced;	  /* the exec was announced to the runtime */
	bool listened_to; /* a filter with an agent is loaded: this thread may only call execve */
	bool has_program;
	bool has_home;
	bool has_listen_pid;
	char program[PATH_MAX];
	char home[PATH_MAX];
	char listen_pid[32];
	struct late_limit late_limits[LATE_LIMITS];
	struct made_mount made_mounts[MADE_MOUNTS];
	uint32_t made_count;
	uint64_t *times; /* start times of operations, shared with the runtime; or NULL */
	uint32_t time_count;
	struct message failure;
};

/* slots.c */
int *slot_of(struct executor *x, uint32_t slot);
int open_slot(struct executor *x, uint32_t slot);

/* report.c */
int fail(struct executor *x, const char *call, const char *argument);
int fail_detail(struct executor *x, const char *call, const char *argument, const char *detail);
int send_message(int fd, const void *data, size_t size, int attached_fd);
int send_short(struct executor *x, int fd, uint32_t kind, uint32_t value, int attached_fd);
void report_failure(struct executor *x);
/* Return true for an error that goes away by itself, after a pause if the kernel is short of memory
 * or descriptors.  A created container must outlive such a moment: nobody would start it again. */
bool passes(int error);
void await_go(int fd);
void await_go_with(int fd, struct go_files *files);
int present_mount(struct executor *x, int fd);

/* listener.c */
struct sock_fprog;
int load_with_listener(struct executor *x, unsigned int flags, const struct sock_fprog *program);
_Noreturn void leave_report_to_thread(void);

/* ops_namespaces.c */
int open_root_of(struct executor *x, uint32_t pid);

/* descriptors.c */
int close_others(struct executor *x, int preserve_fds);
void hide_preserved(struct executor *x);
int close_all_but_0(const struct executor *x);

/* open_below.c; `resolve` are RESOLVE_* of openat2(2), always with BENEATH or IN_ROOT */
int open_below(int root, const char *path, int flags, uint64_t resolve);
int open_no_link(int parent, const char *name, int flags);
/* Reopen an O_PATH descriptor with `flags`, after the type of its file was checked. */
int open_again(struct executor *x, int node, int flags);

/*
 * mount_id.c: the id of the mount that holds an open file, 0 if it cannot be found out.  Since
 * Linux 6.8 ids are unique; on older kernels, a new mount may reuse the id of a mount whose mount
 * point was removed.
 */
uint64_t mount_id(int fd);
/* Use this procfs where statx(2) does not tell ids; -1: no longer. */
void look_for_mount_ids_in(int proc_fd);

/* made_mounts.c */
void note_mount(struct executor *x, int tree, const char *target);
int open_mount(struct executor *x, const char *target);
int open_restricted(struct executor *x, const char *target);
int present_new_mount(struct executor *x, int tree, int target, const char *name);

/* paths.c: none of these leaves the container's root */
int open_inside(struct executor *x, const char *path, int flags);
int open_without_links(struct executor *x, const char *path, int flags);
bool is_there(struct executor *x, const char *path);
int open_directory(struct executor *x, const char *path, mode_t mode);
int open_file(struct executor *x, const char *path);
int open_parent(struct executor *x, const char *path, const char **name);
int open_real_directory(struct executor *x, const char *path);

/* ops_id_map.c */
int map_ids(struct executor *x, int tree, uint32_t id_map, bool recursive, const char *name);

/* ops_process.c */
int apply_late_limits(struct executor *x);

/* ops_program.c */
void announce_exec(struct executor *x);

/* joined_proc.c: returns a filesystem context */
int fsopen_joined_proc(struct executor *x);

/* copy_up.c */
int copy_up(struct executor *x, int source, int target, const char *path);

/* ops_mount.c: -1 or a detached mount */
int make_filesystem(struct executor *x, struct op_mount *op, int target);

/* null_device.c */
int open_null(struct executor *x);
int copy_null(struct executor *x, const char *name);

/* ops_mask_paths.c */
/* Mount an empty read-only directory and return its descriptor. */
int cover_directory(struct executor *x, int target, const char *name, const char *context);

/* mount_calls.c; `name` is for messages */
bool is_missing_call(long number);
void look_for_mount_api(struct executor *x);
int copy_mounts(struct executor *x, int source, bool recursive, const char *name);
int attach_tree(struct executor *x, int tree, int target, const char *name);
int change_mount(struct executor *x, int tree, uint64_t set, uint64_t clear, bool recursive,
		 const char *name);
int propagate(struct executor *x, int tree, uint32_t flags, const char *name);
bool fit_fsconfig(const struct plan_strs *options);
int make_filesystem_by_mount(struct executor *x, struct op_mount *op, const char *mode);
int reconfigure_by_mount(struct executor *x, struct op_reconfigure *op, int target);

#define DECLARE_RUN(code, name) int run_##name(struct executor *x, struct op_##name *op);
PLAN_OPERATIONS(DECLARE_RUN)
#undef DECLARE_RUN

#endif
