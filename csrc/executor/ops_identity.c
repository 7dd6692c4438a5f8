/* The program's identity and privileges. */
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <linux/major.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernel.h"

#define LAST_POSSIBLE_CAPABILITY 63u

/* Return true for a pseudoterminal: its node /dev/pts/N disappears with it. */
static bool is_pseudoterminal(const struct stat *node)
{
	return S_ISCHR(node->st_mode) && major(node->st_rdev) >= UNIX98_PTY_SLAVE_MAJOR &&
	       major(node->st_rdev) < UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT;
}

/*
 * Return whether the user may become the owner, to be able to reopen the stream as /dev/stdout.
 * Not for a file that was opened read-only, which the owner could write to, and not for a device
 * such as /dev/zero or /dev/tty, which belongs to the whole host.
 */
static bool may_be_given(int fd, const struct stat *node)
{
	if (S_ISREG(node->st_mode))
		return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	return S_ISFIFO(node->st_mode) || S_ISSOCK(node->st_mode) || is_pseudoterminal(node);
}

int run_stdio_owner(struct executor *x, struct op_stdio_owner *op)
{
	for (int fd = 0; fd < 3; fd++) {
		struct stat node;

		if (fstat(fd, &node) < 0)
			continue; /* closed by the caller */
		if (!may_be_given(fd, &node))
			continue;
		/*
		 * Files of a read-only or foreign filesystem keep their owner, which does no harm.
		 */
		if (fchown(fd, op->uid, (gid_t)-1) < 0 && errno != EINVAL && errno != EPERM &&
		    errno != EROFS && errno != EACCES)
			return fail(x, "chown", "standard streams");
	}
	return 0;
}

int run_bounding(struct executor *x, struct op_bounding *op)
{
	for (unsigned int capability = 0; capability <= LAST_POSSIBLE_CAPABILITY; capability++) {
		if (op->keep & (1ULL << capability))
			continue;
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* beyond the kernel's last capability */
			/*
			 * EPERM (no CAP_SETPCAP) matters only if the bounding set has the
			 * capability.
			 */
			if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
				return fail(x, "prctl", "PR_CAPBSET_DROP");
		}
	}
	return 0;
}

/* Return true if an unprivileged user made this user namespace, and so had to deny setgroups(2). */
static bool groups_are_fixed(struct executor *x)
{
	int fd = openat(x->proc_fd, "self/setgroups", O_RDONLY | O_CLOEXEC);
	char word[4] = "";
	bool denied = fd >= 0 && read(fd, word, sizeof(word)) == sizeof(word) &&
		      memcmp(word, "deny", sizeof(word)) == 0;

	if (fd >= 0)
		close(fd);
	errno = EPERM;
	return denied;
}

int run_user(struct executor *x, struct op_user *op)
{
	/* To the kernel, this number means "leave it unchanged": root would stay root. */
	errno = EINVAL;
	if (op->uid == (uid_t)-1 || op->gid == (gid_t)-1)
		return fail(x, "verify", "");
	/* setresuid(2) would clear the permitted capabilities; run_capabilities reduces them later. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return fail(x, "prctl", "PR_SET_KEEPCAPS");
	if (op->set_groups && setgroups(op->groups.count, op->groups.items) < 0 &&
	    !(errno == EPERM && op->groups.count == 0 && groups_are_fixed(x)))
		return fail(x, "setgroups", "");
	if (setresgid(op->gid, op->gid, op->gid) < 0)
		return fail(x, "setresgid", "");
	if (setresuid(op->uid, op->uid, op->uid) < 0)
		return fail(x, "setresuid", "");
	/*
	 * Whether setresuid(2) makes the process undumpable depends on fs.suid_dumpable.  Until the
	 * program is executed, no process of that user may trace this one (CVE-2016-9962).
	 */
	prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

static int set_capabilities(struct executor *x, uint64_t effective, uint64_t permitted,
			    uint64_t inheritable)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ (uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32),
		  (uint32_t)(inheritable >> 32) },
	};

	return syscall(SYS_capset, &header, data) < 0 ? fail(x, "capset", "") : 0;
}

int run_capabilities(struct executor *x, struct op_capabilities *op)
{
	if (set_capabilities(x, op->effective, op->permitted, op->inheritable) < 0)
		return -1;
	if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return fail(x, "prctl", "PR_SET_KEEPCAPS");
	/* The caller may have ambient capabilities, which an execve(2) would pass to the program. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return fail(x, "prctl", "PR_CAP_AMBIENT_CLEAR_ALL");
	for (unsigned int capability = 0; capability <= LAST_POSSIBLE_CAPABILITY; capability++)
		if ((op->ambient & (1ULL << capability)) &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0)
			return fail(x, "prctl", "PR_CAP_AMBIENT_RAISE");
	return 0;
}

/*
 * Use only capset(2), because the filter is in force.  The ambient set has none of these
 * capabilities.
 */
int run_drop_extra(struct executor *x, struct op_drop_extra *op)
{
	return set_capabilities(x, op->effective, op->permitted, op->inheritable);
}

int run_no_new_privs(struct executor *x, struct op_no_new_privs *op)
{
	(void)op;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? fail(x, "prctl", "PR_SET_NO_NEW_PRIVS")
							  : 0;
}

int run_seccomp(struct executor *x, struct op_seccomp *op)
{
	struct sock_fprog program = {
		.len = (unsigned short)(op->filter.size / sizeof(struct sock_filter)),
		.filter = (struct sock_filter *)(uintptr_t)op->filter.data,
	};

	if (op->filter.size / sizeof(struct sock_filter) > BPF_MAXINSNS ||
	    op->filter.size % sizeof(struct sock_filter) != 0) {
		errno = EINVAL;
		return fail(x, "seccomp", "");
	}
	if (op->flags & SECCOMP_FILTER_FLAG_NEW_LISTENER)
		return load_with_listener(x, op->flags, &program);
	if (op->last) {
		/* Finish and report now: the seccomp filter may forbid both. */
		if (apply_late_limits(x) < 0)
			return -1;
		announce_exec(x);
	}
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, op->flags, &program) < 0)
		return fail(x, "seccomp", "");
	return 0;
}
