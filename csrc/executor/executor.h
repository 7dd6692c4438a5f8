/*
 * The executor carries out a plan inside the container's namespaces and becomes the
 * container's program.  It decides nothing: what to do was decided when the plan was made.
 *
 * Each operation is a function `run_NAME(executor, op)` that returns 0, or -1 after
 * `fail()` has noted what the kernel refused.
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

#define SLOTS 64

/* A resource limit that the executor itself must not meet. */
struct late_limit {
	uint32_t resource;
	bool set;
	uint64_t soft;
	uint64_t hard;
};

#define LATE_LIMITS 2

struct executor {
	uint32_t step;	  /* place of the current operation, from 0 */
	int sync_fd;	  /* to the runtime that creates; -1 once it has let go */
	int gate_fd;	  /* listening socket of the start gate */
	int report_fd;	  /* where a failure goes: sync_fd, later the starter's connection */
	int root_fd;	  /* the container's root; targets are resolved in it */
	int proc_fd;	  /* the host's /proc, verified */
	int null_fd;	  /* the host's /dev/null, verified */
	int preserve_fds; /* descriptors from 3 upwards that the program keeps */
	int slots[SLOTS]; /* namespace files and detached trees */
	bool entered;	  /* the old root is gone */
	bool in_directory;
	bool announced;	  /* that the program follows */
	bool has_program;
	bool has_home;
	char program[PATH_MAX];
	char home[PATH_MAX];
	struct late_limit late_limits[LATE_LIMITS];
	struct message failure;
};

/* report.c */
int fail(struct executor *x, const char *call, const char *argument);
int fail_detail(struct executor *x, const char *call, const char *argument, const char *detail);
int send_message(int fd, const void *data, size_t size, int attached_fd);
int send_short(struct executor *x, int fd, uint32_t kind, uint32_t value, int attached_fd);
void report_failure(struct executor *x);

/* descriptors.c */
int close_others(struct executor *x, int preserve_fds);
void hide_preserved(struct executor *x);

/* paths.c: nothing here leaves the container's root */
int open_inside(struct executor *x, const char *path, int flags);
int open_directory(struct executor *x, const char *path, mode_t mode);
int open_file(struct executor *x, const char *path);
int open_parent(struct executor *x, const char *path, const char **name);
int open_real_directory(struct executor *x, const char *path);
int open_no_link(int parent, const char *name);

/* ops_process.c */
int apply_late_limits(struct executor *x);

/* ops_program.c */
void announce_exec(struct executor *x);

/* copy_up.c */
int copy_up(struct executor *x, int source, int target, const char *path);

/* ops_mount.c */
int attach_tree(struct executor *x, int tree, int target, const char *name);

#define DECLARE_RUN(code, name) int run_##name(struct executor *x, struct op_##name *op);
PLAN_OPERATIONS(DECLARE_RUN)
#undef DECLARE_RUN

#endif
