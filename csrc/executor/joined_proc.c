/*
 * Mount the procfs of a pid namespace that this process is not in, but others are.
 *
 * The executor has all privileges, and stays outside that namespace until it has dropped them:
 * inside, another container's process with CAP_SYS_PTRACE (a neighbour) could trace it.  Since
 * Linux 6.17, procfs takes the namespace as an option.  On older kernels, a process inside must
 * call fsopen(2): a helper that can do nothing else, and whose answer is verified before it is
 * used.
 */
#include "executor.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kernel.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define HELPER_TIMEOUT 10 /* seconds */

#define ALLOW(call)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static bool confine(void)
{
	static struct sock_filter code[] = {
#ifdef NATIVE
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
#endif
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_fsopen), ALLOW(SYS_sendmsg), ALLOW(SYS_clone), ALLOW(SYS_wait4),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const uint32_t kept = 1u << CAP_SYS_ADMIN;
	const struct __user_cap_data_struct sets[2] = { { kept, kept, 0 }, { 0, 0, 0 } };

	return syscall(SYS_capset, &header, sets) == 0 &&
	       prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/*
 * Keep only an empty root, and the channel as descriptor 0: a neighbour can reach everything else
 * through /proc/PID/root, cwd and fd.
 */
static bool strip(const struct executor *x, int channel)
{
	int fs = sys_fsopen("tmpfs", FSOPEN_CLOEXEC), root;

	if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return false;
	root = sys_fsmount(fs, FSMOUNT_CLOEXEC, 0);
	return root >= 0 && fchdir(root) == 0 && chroot(".") == 0 && dup2(channel, 0) == 0 &&
	       close_all_but_0(x) == 0;
}

/*
 * Run the helper.  It stays outside the pid namespace; only its child is inside, already confined.
 */
static _Noreturn void help(struct executor *x, int channel)
{
	int status, fs;
	long child;

	if ((x->pid_fd >= 0 && setns(x->pid_fd, CLONE_NEWPID) < 0) || !strip(x, channel) || !confine())
		_exit(1);
	child = sys_clone(SIGCHLD);
	/* Only a child is inside; fork(2) fails if a neighbour has used up all pids there. */
	if (child != 0)
		_exit(child < 0 || waitpid(-1, &status, 0) < 0);
	fs = sys_fsopen("proc", FSOPEN_CLOEXEC);
	_exit(fs < 0 || send_message(0, "", 1, fs) < 0);
}

static int receive_fd(int channel)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fd = -1;

	errno = EPERM;
	if (syscall(SYS_recvmsg, channel, &message, MSG_CMSG_CLOEXEC) == 1 &&
	    message.msg_controllen >= sizeof(struct cmsghdr) &&
	    control.header.cmsg_level == SOL_SOCKET && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int fsopen_inside(struct executor *x)
{
	const struct timeval timeout = { .tv_sec = HELPER_TIMEOUT };
	int own = openat(x->proc_fd, "self/ns/pid", O_RDONLY | O_CLOEXEC), channel[2], fs, status;
	pid_t helper;
	char byte;

	if (own < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0)
		return fail(x, "fsopen", "proc");
	/*
	 * Fork the helper in our own pid namespace. setns(2) fails in a user namespace, where it is
	 * not needed: neighbours have no privileges outside the user namespace.
	 */
	(void)setns(own, CLONE_NEWPID);
	helper = fork();
	if (helper == 0)
		help(x, channel[1]);
	close(channel[1]);
	/*
	 * Wait with a timeout: a neighbour may have stopped the process inside.  It cannot reach
	 * the helper.
	 */
	(void)syscall(SYS_setsockopt, channel[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	fs = helper < 0 ? -1 : receive_fd(channel[0]);
	/*
	 * The helper closes the channel when it exits, after it has reaped the process inside.  If
	 * the helper is killed earlier, that process stays a zombie, which keeps the namespace's
	 * init from exiting.
	 */
	if (fs >= 0)
		(void)recv(channel[0], &byte, sizeof(byte), 0);
	if (helper > 0) {
		(void)kill(helper, SIGKILL);
		(void)waitpid(helper, &status, 0);
	}
	close(channel[0]);
	close(own);
	if (setns(x->pid_fd, CLONE_NEWPID) < 0)
		return fail(x, "setns", "");
	/*
	 * Check the type with an option that only procfs has: neighbours may have tampered with the
	 * answer.
	 */
	if (fs < 0 || sys_fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "0", 0) < 0)
		return fail(x, "fsopen", "proc");
	return fs;
}

int fsopen_joined_proc(struct executor *x)
{
	int fs = sys_fsopen("proc", FSOPEN_CLOEXEC);

	if (fs < 0)
		return fail(x, "fsopen", "proc");
	if (sys_fsconfig(fs, FSCONFIG_SET_FD, "pidns", NULL, x->pid_fd) == 0)
		return fs;
	if (errno != EINVAL)
		return fail(x, "fsconfig", "pidns");
	close(fs);
	return fsopen_inside(x);
}
