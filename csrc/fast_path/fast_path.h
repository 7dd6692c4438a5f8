/*
 * The fast path: `state`, `start`, `kill`, `delete`, `pause`, `resume` and `ps` without the
 * interpreter, in their usual cases.
 *
 * `create` writes what they need to the file `entry` of the state directory
 * (ociruntime/runtime/lifecycle/fast_path_record.py).  Every unusual case is left to the
 * interpreter, which handles every case and writes the error messages: this code reports no errors.
 */
#ifndef FAST_PATH_H
#define FAST_PATH_H

#define _GNU_SOURCE

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returned by a command instead of an exit status: the interpreter has to run the command. */
#define FALL_BACK (-1)

enum verb {
	VERB_STATE,
	VERB_START,
	VERB_KILL,
	VERB_DELETE,
	VERB_PAUSE,
	VERB_RESUME,
	VERB_PS,
};

struct request {
	enum verb verb;
	const char *root; /* NULL: the default */
	const char *log;  /* NULL: none */
	const char *id;
	int signal;
	bool force;
	bool json; /* of `ps`: pids only */
};

enum { MAX_OWN = 32, MAX_PARENTS = 128, RECORD_SIZE = 65536 };

/* The content of the file `entry`; strings point into `text`. */
struct record {
	int pid;
	unsigned long long started; /* in ticks since boot, as in /proc/PID/stat */
	const char *freezer;	    /* freezer file to read the paused state from, or "" */
	bool own_pid_namespace;
	bool can_start;
	bool can_delete;
	uid_t owner;
	size_t own_count, parent_count;
	const char *own[MAX_OWN];	  /* its cgroup directories */
	const char *parents[MAX_PARENTS]; /* cgroups created above them, deepest first */
	const char *head, *middle, *tail; /* output of `state` around pid and status */
	size_t tail_length;
	char text[RECORD_SIZE + 1];
};

struct container {
	int root_fd;
	int fd; /* the state directory */
	const char *id;
	struct record record;
};

enum status {
	STATUS_CREATED,
	STATUS_RUNNING,
	STATUS_PAUSED,
	STATUS_STOPPED,
	STATUS_UNKNOWN, /* the interpreter has to determine it or report the error */
};

/* small_file.c: returns the length of the content stored in `text`, or -1 */
ssize_t read_small_file(int directory, const char *path, char *text, size_t size);

/* decimal.c: parse digits at *at and advance it; false without digits, or beyond 64 bits */
bool read_decimal(const char **at, unsigned long long *number);

/* arguments.c */
bool read_arguments(int argc, char *const argv[], struct request *request);

/* output.c: exit status, or FALL_BACK if nothing could be written */
int write_out(const char *text, size_t length);

/* signal_names.c: 0 only checks the process; -1 for an uncommon name or number */
int signal_number(const char *text);

/* container_id.c */
bool is_plain_id(const char *id);

/* state_root.c */
bool find_state_root(const char *given, char root[PATH_MAX]);
bool in_user_namespace(void);

/* trusted_directories.c */
int open_trusted_way(const char *path);
bool is_trusted(int fd);

/* fast_path_record.c: `length` bytes are in record->text */
bool parse_record(struct record *record, size_t length);

/* container.c; both fail if other users can change the directory (trusted_directories.c) */
bool open_root(const struct request *request, struct container *container);
bool open_container(struct container *container);
bool lock_container(const struct container *container);
bool has_stale_directories(const struct container *container);

/* process.c */
/* UNKNOWN: the interpreter has to determine it or report the error. */
enum life { ENDED, ALIVE, UNKNOWN };
enum life life_of(int pid, unsigned long long started);
int open_process(int pid, unsigned long long started);
int signal_process(int pidfd, int number);
bool await_end(int pidfd, int milliseconds);

/* start_gate.c */
int connect_gate(const struct container *container, int flags);

/* status.c */
enum status find_status(const struct container *container);
bool is_frozen(const char *freezer);
bool has_child_cgroups(const char *directory);

/* cgroup_removal.c */
bool remove_cgroups(const struct record *record);

/* The commands: each returns an exit status or FALL_BACK. */
int answer_state(struct container *container);
int answer_start(struct container *container, int *failure_fd);
int answer_kill(struct container *container, int number);
int answer_delete(struct container *container, bool force);
int answer_pause(struct container *container);
int answer_resume(struct container *container);
int answer_ps(struct container *container);

/*
 * fast_path.c: returns an exit status or FALL_BACK.  If `failure_fd` is not -1 afterwards, it holds
 * the container's failure message, and must be passed to `start` in the interpreter.
 */
int answer(int argc, char *const argv[], int *failure_fd);

#endif
