/* Operations that create and join namespaces, and synchronise with the runtime. */
#include "executor.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "kernel.h"

int run_open_namespace(struct executor *x, struct op_open_namespace *op)
{
	int *fd = slot_of(x, op->slot);

	if (!fd)
		return -1;
	/*
	 * Open without blocking: the path may be a FIFO instead of a namespace; setns(2) then
	 * reports EINVAL.
	 */
	*fd = open(op->source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *fd < 0 ? fail(x, "open", op->source) : 0;
}

int run_join_namespace(struct executor *x, struct op_join_namespace *op)
{
	int *fd = slot_of(x, op->slot);

	if (!fd)
		return -1;
	if (setns(*fd, (int)op->kind) < 0)
		return fail(x, "setns", "");
	if (op->kind == CLONE_NEWPID)
		x->pid_fd = *fd; /* affects only children, forked after procfs is mounted */
	else
		close(*fd);
	*fd = -1;
	return 0;
}

int run_unshare(struct executor *x, struct op_unshare *op)
{
	return unshare((int)op->flags) < 0 ? fail(x, "unshare", "") : 0;
}

/*
 * Enter the container's v1 cgroups; each file is the `tasks` of one of them.  A thread that moves
 * itself ("0") does not wait for an RCU grace period, which takes 9 ms.  That is sufficient,
 * because this process has only one thread.
 */
static int enter_cgroups(struct executor *x, const struct go_files *files)
{
	errno = EMFILE;
	if (files->lost)
		return fail(x, "recvmsg", "tasks");
	for (unsigned int i = 0; i < files->count; i++) {
		char data[16];
		struct text place = text_in(data, sizeof(data));

		text_add_number(&place, i, 10);
		if (write(files->fds[i], "0", 1) < 0)
			return fail(x, "enter cgroup", data);
		close(files->fds[i]);
	}
	return 0;
}

int run_sync(struct executor *x, struct op_sync *op)
{
	/* An unprivileged user may write the maps only of a process that it may trace. */
	bool look = op->stage == STAGE_MAPS && geteuid() != 0;
	struct go_files files;

	if (look)
		prctl(PR_SET_DUMPABLE, 1);
	if (send_short(x, x->sync_fd, MESSAGE_STAGE, op->stage, -1) < 0)
		return fail(x, "sendmsg", "sync");
	await_go_with(x->sync_fd, &files);
	if (look)
		prctl(PR_SET_DUMPABLE, 0);
	if (enter_cgroups(x, &files) < 0)
		return -1;
	if (op->stage == STAGE_READY) {
		close(x->sync_fd);
		x->sync_fd = -1;
		x->report_fd = -1;
	}
	return 0;
}

int run_become_root(struct executor *x, struct op_become_root *op)
{
	(void)op;
	if (setresgid(0, 0, 0) < 0)
		return fail(x, "setresgid", "0");
	if (setresuid(0, 0, 0) < 0)
		return fail(x, "setresuid", "0");
	prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

/* Tell the runtime the init's pid, which only the init can find out. */
static int introduce_init(struct executor *x)
{
	char self[16] = "";
	uint32_t host_pid;

	if (setsid() < 0)
		return fail(x, "setsid", "");
	/* The host's procfs shows the pid that the host needs. */
	if (readlinkat(x->proc_fd, "self", self, sizeof(self) - 1) < 0)
		return fail(x, "readlink", "/proc/self");
	errno = ENODEV;
	if (!text_number(self, &host_pid))
		return fail(x, "verify", "/proc/self");
	x->failure.pid = (int32_t)host_pid;
	if (send_short(x, x->sync_fd, MESSAGE_INIT_PID, 0, -1) < 0)
		return fail(x, "sendmsg", "sync");
	return 0;
}

int run_clone_init(struct executor *x, struct op_clone_init *op)
{
	/*
	 * CLONE_PARENT makes it a child of the runtime; it then ignores the exit signal passed
	 * here.
	 */
	struct clone_args arguments = { .flags = (uint64_t)op->flags | CLONE_PARENT };
	long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));

	if (pid < 0)
		return fail(x, "clone3", "");
	if (pid > 0)
		_exit(0);
	return introduce_init(x);
}

/* Open the root directory of process `pid` (as in the host's procfs).  Records no failure. */
int open_root_of(struct executor *x, uint32_t pid)
{
	char path[32];
	struct text text = text_in(path, sizeof(path));

	text_add_number(&text, pid, 10);
	text_add(&text, "/root");
	return openat(x->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Join all namespaces in one call: the kernel enters the user namespace first and checks permission
 * for the others in it.  Joining the mount namespace also changes the root.  If the mount namespace
 * is shared, enter the root of the container's init; the pidfd proves that its pid was not reused.
 */
int run_join_process(struct executor *x, struct op_join_process *op)
{
	int root = op->root_of ? open_root_of(x, op->root_of) : -1;

	if (op->root_of && root < 0)
		return fail(x, "open", "root");
	if (op->flags && setns(x->init_fd, (int)op->flags) < 0)
		return fail(x, "setns", "");
	if (!op->flags && syscall(SYS_pidfd_send_signal, x->init_fd, 0, NULL, 0) < 0)
		return fail(x, "pidfd_send_signal", "");
	prctl(PR_SET_DUMPABLE, 0);
	close(x->init_fd);
	x->init_fd = -1;
	x->joined = true;
	if (root >= 0) {
		if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0)
			return fail(x, "chroot", "root");
		close(root);
	}
	if (op->flags & CLONE_NEWNS)
		look_for_mount_api(x);
	x->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return x->root_fd < 0 ? fail(x, "open", "/") : 0;
}

/*
 * Fork as late as possible: other processes of the pid namespace can see and trace the child, which
 * must have dropped all privileges by then (CVE-2016-9962).
 */
int run_clone_process(struct executor *x, struct op_clone_process *op)
{
	/* clone3(2) is no alternative: filters refuse it because they cannot inspect its flags. */
	long pid = sys_clone(CLONE_PARENT);

	if (pid < 0)
		return fail(x, "clone", "");
	if (pid > 0) {
		/* Only the parent knows the child's pid outside the pid namespace. */
		x->failure.pid = (int32_t)pid;
		_exit(send_short(x, x->sync_fd, MESSAGE_INIT_PID, 0, -1) < 0);
	}
	if (setsid() < 0)
		return fail(x, "setsid", "");
	return op->terminal && ioctl(0, TIOCSCTTY, 0) < 0 ? fail(x, "ioctl", "TIOCSCTTY") : 0;
}

int run_keyring(struct executor *x, struct op_keyring *op)
{
	const long join_session_keyring = 1;

	(void)op;
	/*
	 * Create an anonymous session keyring: with a name, keyctl(2) would join an existing
	 * keyring.  If the kernel has no keyrings, or an outer container denies them, no key can
	 * leak.
	 */
	if (syscall(SYS_keyctl, join_session_keyring, NULL) < 0 && errno != ENOSYS &&
	    errno != EPERM)
		return fail(x, "keyctl", "");
	return 0;
}
