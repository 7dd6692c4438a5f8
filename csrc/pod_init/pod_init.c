/* PID 1 of a pod: it holds the namespaces, reaps orphans, and exits with the monitor. */
#define _GNU_SOURCE
#include "pod_init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif

/* Write the line "CALL ERRNO", which the monitor turns into an error message. */
static _Noreturn void fail(const struct init *init, const char *call)
{
	char line[64];
	size_t size = strnlen(call, sizeof(line) - 8);
	int number = errno;

	memcpy(line, call, size);
	line[size++] = ' ';
	for (int digit = 1000; digit > 0; digit /= 10)
		line[size++] = (char)('0' + number / digit % 10);
	line[size++] = '\n';
	(void)!write(init->report, line, size);
	_exit(1);
}

/* Reap the pod's orphans automatically; their exit status is not needed. */
static void leave_children_to_the_kernel(void)
{
	static const uint64_t ignored[8] = { 1 /* SIG_IGN */ }; /* struct sigaction of the kernel */

	(void)syscall(SYS_rt_sigaction, SIGCHLD, ignored, NULL, 8);
}

/* Change to an empty, read-only root: an app must not see the host through /proc/1/root. */
static void give_up_the_files(const struct init *init)
{
	static const char options[] = "size=4k,nr_inodes=2,mode=0555";

	if (syscall(SYS_mount, "", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail(init, "mount");
	if (syscall(SYS_mount, "none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		    options) < 0)
		fail(init, "mount tmpfs");
	if (chdir("/proc") < 0)
		fail(init, "chdir");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		fail(init, "pivot_root");
	if (syscall(SYS_umount2, ".", MNT_DETACH) < 0)
		fail(init, "umount2");
	if (chdir("/") < 0)
		fail(init, "chdir");
	if (syscall(SYS_mount, NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID |
		    MS_NODEV | MS_NOEXEC, NULL) < 0)
		fail(init, "remount");
}

/* Bring the loopback up, and let any user bind low ports where the kernel allows that. */
static void set_network_up(const struct init *init)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (any < 0)
		fail(init, "socket");
	if (ioctl(any, SIOCSIFFLAGS, &loopback) < 0)
		fail(init, "bring lo up");
	close(any);
	any = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC);
	if (any >= 0) { /* missing before Linux 4.11, read-only in a container */
		(void)!write(any, "0", 1);
		close(any);
	}
}

static void give_up_privileges(const struct init *init)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(init, "prctl");
	if (syscall(SYS_capset, &header, none) < 0)
		fail(init, "capset");
	/*
	 * Become undumpable: otherwise an app of the same user could trace this process or open its
	 * descriptors.
	 */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		fail(init, "prctl");
}

void be_init(const struct init *init)
{
	static const char ready[] = "ready\n";
	struct pollfd control = { .fd = init->control };
	char byte;
	ssize_t got;

	/* If the monitor has already died, the pipe is at end of file. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail(init, "prctl");
	(void)prctl(PR_SET_NAME, "ocipod-init", 0, 0, 0);
	(void)setsid();
	leave_children_to_the_kernel();
	got = read(init->control, &byte, 1);
	if (got < 0)
		fail(init, "read");
	if (got == 0)
		_exit(1);
	if ((init->namespaces & CLONE_NEWUTS) && init->hostname[0] != '\0' &&
	    sethostname(init->hostname, strlen(init->hostname)) < 0)
		fail(init, "sethostname");
	if (init->namespaces & CLONE_NEWNET)
		set_network_up(init);
	if (init->namespaces & CLONE_NEWNS)
		give_up_the_files(init);
	give_up_privileges(init);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail(init, "prctl");
	/* If the report ends without this line, the monitor knows that this process was killed. */
	(void)!write(init->report, ready, sizeof(ready) - 1);
	close(init->report);
	for (;;)
		if (poll(&control, 1, -1) > 0 && (control.revents & (POLLHUP | POLLERR)))
			_exit(0);
}
