/*
 * Id-mapped mounts.  The kernel takes the maps of a mount from a user namespace.  A child process
 * creates that namespace, and exits once a descriptor keeps the namespace alive.
 */
#include "executor.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kernel.h"

#define PID_SIZE 16 /* a pid in decimal, with its NUL */

/*
 * In the child: send this process's pid, as in the host's procfs, and wait until the parent closes
 * the channel.
 */
static void hold_namespace(struct executor *x, int channel)
{
	char self[PID_SIZE] = "", asked;

	if (readlinkat(x->proc_fd, "self", self, sizeof(self) - 1) > 0)
		while (write(channel, self, sizeof(self)) == (ssize_t)sizeof(self) &&
		       read(channel, &asked, sizeof(asked)) == (ssize_t)sizeof(asked))
			prctl(PR_SET_DUMPABLE, 1);
	_exit(0);
}

static int receive_pid(int channel, char pid[PID_SIZE])
{
	uint32_t number;

	errno = ENODEV;
	return read(channel, pid, PID_SIZE) == PID_SIZE && !pid[PID_SIZE - 1] &&
			       text_number(pid, &number)
		       ? 0
		       : -1;
}

static int open_of(struct executor *x, const char *pid, const char *name, int flags)
{
	char data[PID_SIZE + 16];
	struct text path = text_in(data, sizeof(data));
	int fd;

	text_add(&path, pid);
	text_add(&path, name);
	fd = openat(x->proc_fd, data, flags | O_CLOEXEC);
	return fd < 0 ? fail(x, "open", name) : fd;
}

/* Use a single write: the kernel accepts only a complete map. */
static int write_map(struct executor *x, const char *pid, const char *name, const char *map)
{
	int fd = open_of(x, pid, name, O_WRONLY), result = -1;

	if (fd < 0)
		return -1;
	if (write(fd, map, strlen(map)) == (ssize_t)strlen(map))
		result = 0;
	else
		(void)fail(x, "write", name);
	close(fd);
	return result;
}

/*
 * Return whether we may inspect the child.  Without CAP_SYS_PTRACE, it must be dumpable, and
 * becomes so on request.  With CAP_SYS_PTRACE, it stays undumpable: its root directory is the
 * host's, and root of a container that shares the host's pids and owns its user namespace could
 * enter it.
 */
static bool may_look(struct executor *x, const char *pid)
{
	int fd = open_of(x, pid, "/ns/user", O_RDONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int take_namespace(struct executor *x, struct op_id_map *op, int channel)
{
	char pid[PID_SIZE];

	if (receive_pid(channel, pid) < 0 ||
	    (!may_look(x, pid) &&
	     (write(channel, "", 1) != 1 || receive_pid(channel, pid) < 0)))
		return fail(x, "verify", "/proc/self");
	if (write_map(x, pid, "/uid_map", op->uid_map) < 0 ||
	    write_map(x, pid, "/gid_map", op->gid_map) < 0)
		return -1;
	return open_of(x, pid, "/ns/user", O_RDONLY);
}

int run_id_map(struct executor *x, struct op_id_map *op)
{
	struct clone_args arguments = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	int *slot = slot_of(x, op->slot), ends[2];
	long pid;

	if (!slot)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return fail(x, "socketpair", "");
	pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (pid == 0) {
		close(ends[0]);
		hold_namespace(x, ends[1]);
	}
	close(ends[1]);
	*slot = pid < 0 ? fail(x, "clone3", "") : take_namespace(x, op, ends[0]);
	close(ends[0]);
	while (pid > 0 && waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
	return *slot < 0 ? -1 : 0;
}

/* Apply the map to `tree`, which must still be detached; NO_SLOT leaves it as it is. */
int map_ids(struct executor *x, int tree, uint32_t id_map, bool recursive, const char *name)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_IDMAP };
	int user_namespace;

	if (id_map == NO_SLOT)
		return 0;
	user_namespace = open_slot(x, id_map);
	if (user_namespace < 0)
		return -1;
	attributes.userns_fd = (uint64_t)user_namespace;
	if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
			      &attributes) < 0)
		return fail(x, "mount_setattr id map", name);
	return 0;
}
