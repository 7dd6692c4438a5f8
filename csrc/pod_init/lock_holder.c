/*
 * The lock holder: keeps the pod's lock until the last process of the pod has ended.
 *
 * The monitor cannot do that, because it may be killed.  Neither can the pod's PID 1, because the
 * kernel closes its files before it kills the other processes of its namespace.
 */
#define _GNU_SOURCE
#include "pod_init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD 64u   /* processes of a cgroup to kill in one round */
#define PAUSE 10   /* milliseconds between two checks */
#define TIMEOUT 1000 /* milliseconds for process 1 to end without its monitor */

/* The record that getdents64(2) returns. */
struct entry {
	uint64_t inode;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

/* Processes of a cgroup, each pinned by a pidfd. */
struct held {
	pid_t pids[HELD];
	int pidfds[HELD];
	unsigned int count;
};

typedef void visit(struct held *held, pid_t pid);

static void hold(struct held *held, pid_t pid)
{
	int fd = held->count < HELD ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return; /* it has exited, or the next round kills it */
	held->pids[held->count] = pid;
	held->pidfds[held->count++] = fd;
}

static void kill_held(struct held *held, pid_t pid)
{
	for (unsigned int i = 0; i < held->count; i++)
		if (held->pids[i] == pid)
			(void)syscall(SYS_pidfd_send_signal, held->pidfds[i], SIGKILL, NULL, 0);
}

/* Call `visit` with each pid in a list like cgroup.procs; return true if there was any. */
static bool for_each(int list, struct held *held, visit *visit)
{
	char text[512];
	ssize_t size;
	pid_t pid = 0;
	bool any = false;

	if (lseek(list, 0, SEEK_SET) < 0)
		return false;
	while ((size = read(list, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < size; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 1)
				visit(held, pid);
			any = any || pid != 0;
			pid = 0;
		}
	}
	return any;
}

/*
 * Kill the processes in a list like cgroup.procs; return true if there was any.  A pid may be
 * reused before the signal, so each process is pinned by a pidfd first, and killed if the list
 * still has it.
 */
static bool kill_listed(int list)
{
	struct held held = { .count = 0 };
	bool any = for_each(list, &held, hold);

	(void)for_each(list, &held, kill_held);
	for (unsigned int i = 0; i < held.count; i++)
		close(held.pidfds[i]);
	return any;
}

/* Write to a control file, if the cgroup has it. */
static void set(int directory, const char *name, const char *value)
{
	int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, value, strlen(value));
	close(fd);
}

/*
 * The names of subdirectories that remain to be visited, each with its NUL; an empty name begins
 * the list of a directory.  Positions in a directory (telldir(3)) are no alternative: kernfs
 * derives them from a hash of the name, and an app can choose names with the same hash.
 */
static char pending[16 << 20]; /* only the pages that are used take up memory */

/*
 * Append the names of subdirectories to `pending`, after `used` bytes; return the new number of
 * used bytes.  Names that do not fit are skipped: only an app that wants to hold its pod's lock
 * creates so many.  At least one byte must be free.
 */
static size_t list_below(int directory, size_t used)
{
	_Alignas(struct entry) char buffer[1024];
	long size;

	pending[used++] = '\0';
	while ((size = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < size;) {
			const struct entry *entry = (const struct entry *)(buffer + at);
			size_t length = strnlen(entry->name, NAME_MAX) + 1;

			at += entry->size;
			if (entry->type != 4 /* DT_DIR */ || strcmp(entry->name, ".") == 0 ||
			    strcmp(entry->name, "..") == 0)
				continue;
			if (length > sizeof(pending) - used)
				return used;
			memcpy(pending + used, entry->name, length);
			used += length;
		}
	}
	return used;
}

/* Return the offset at which the last of the names begins. */
static size_t last_name(size_t used)
{
	size_t at = used - 1;

	while (at > 0 && pending[at - 1] != '\0')
		at--;
	return at;
}

static bool kill_in(int directory)
{
	int list = openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	bool any = false;

	/* Since Linux 5.14 v2 kills all processes, including those forked meanwhile. */
	set(directory, "cgroup.kill", "1");
	if (list >= 0) {
		any = kill_listed(list);
		close(list);
	}
	/* On v1, frozen processes die only when thawed: after the signal, so that none runs again. */
	set(directory, "freezer.state", "THAWED");
	return any;
}

/*
 * Replace *directory by `name` in it (".." or a subdirectory); return false if it cannot be opened.
 */
static bool go_to(int *directory, const char *name)
{
	int there = openat(*directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (there < 0)
		return false;
	close(*directory);
	*directory = there;
	return true;
}

/*
 * Kill all processes in a cgroup and below it; return true if there was any.  An app may nest
 * cgroups to any depth, so this function keeps a single descriptor and returns to a parent through
 * "..": a cgroup cannot be moved.
 */
static bool kill_cgroup(const char *path)
{
	int here = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	size_t used;
	bool any;

	if (here < 0)
		return false;
	any = kill_in(here);
	used = list_below(here, 0);
	while (used > 0) {
		used = last_name(used);
		if (pending[used] == '\0') {
			if (used == 0) {
				close(here);
				return any;
			}
			if (!go_to(&here, ".."))
				break;
		} else if (used < sizeof(pending) && go_to(&here, pending + used)) {
			any = kill_in(here) || any;
			used = list_below(here, used);
		}
	}
	close(here);
	return true; /* not all were visited: the next round begins at the top */
}

/* Kill the processes in the cgroups until none is left. */
static void empty(char *const cgroups[])
{
	bool any;

	do {
		any = false;
		for (char *const *each = cgroups; *each; each++)
			any = kill_cgroup(*each) || any;
		if (any)
			(void)poll(NULL, 0, PAUSE);
	} while (any);
}

/*
 * Wait until process 1 has ended.  Once the monitor has ended, process 1 is being killed, but it
 * exits only when all zombies of its namespace are reaped by their present parents, one of which
 * may never do so.  In that case, it is enough that no process runs any more, for which empty()
 * waits.
 */
static void await_end(int watched, int control)
{
	struct pollfd both[] = { { .fd = watched, .events = POLLIN }, { .fd = control } };
	int ready;

	do
		ready = poll(both, 2, -1);
	while (ready < 0 && errno == EINTR);
	if (!(both[0].revents & POLLIN))
		(void)poll(both, 1, TIMEOUT);
}

void be_lock_holder(int watched, int control, char *const cgroups[])
{
	uint64_t all = ~(uint64_t)0;

	(void)prctl(PR_SET_NAME, "ocipod-lock", 0, 0, 0);
	(void)setsid();
	(void)!chdir("/");
	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof(all));
	await_end(watched, control);
	/* Usually no process is left, except a runtime that was just creating a container. */
	empty(cgroups);
	_exit(0);
}
