/* facts_process.c: what belongs to the process alone. */
#define _GNU_SOURCE
#include "probe.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096 };

static unsigned char was_open[DESCRIPTORS];

/* At the very start, before the probe opens anything itself. */
void remember_descriptors(void)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

void put_identity(void)
{
	gid_t groups[1024];
	int count = getgroups(LENGTH(groups), groups);
	uid_t uid = 0, euid = 0, suid = 0;
	gid_t gid = 0, egid = 0, sgid = 0;
	getresuid(&uid, &euid, &suid);
	getresgid(&gid, &egid, &sgid);
	put_number("pid", getpid());
	put_number("ppid", getppid());
	put_number("pgid", getpgid(0));
	put_number("sid", getsid(0));
	put_number("uid", uid);
	put_number("euid", euid);
	put_number("suid", suid);
	put_number("gid", gid);
	put_number("egid", egid);
	put_number("sgid", sgid);
	put_open("groups", '[');
	for (int i = 0; i < count; i++)
		put_number(NULL, groups[i]);
	put_close(']');
	mode_t mask = umask(0);
	umask(mask);
	put_number("umask", mask);
}

void put_credentials(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
	unsigned long long bounding = 0, ambient = 0;
	syscall(SYS_capget, &header, data);
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			bounding |= 1ULL << cap;
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			ambient |= 1ULL << cap;
	}
	put_open("capabilities", '{');
	put_unsigned("bounding", bounding);
	put_unsigned("effective", (unsigned long long)data[1].effective << 32 | data[0].effective);
	put_unsigned("permitted", (unsigned long long)data[1].permitted << 32 | data[0].permitted);
	put_unsigned("inheritable",
		     (unsigned long long)data[1].inheritable << 32 | data[0].inheritable);
	put_unsigned("ambient", ambient);
	put_close('}');
	put_number("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	put_number("seccomp", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	put_number("securebits", prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	put_number("dumpable", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	int value = -1;
	prctl(PR_GET_PDEATHSIG, &value, 0, 0, 0);
	put_number("pdeathsig", value);
	value = -1;
	prctl(PR_GET_CHILD_SUBREAPER, &value, 0, 0, 0);
	put_number("subreaper", value);
	put_number("personality", personality(0xffffffff));
	put_number("keyring", syscall(SYS_keyctl, 0, -3, 0));
}

void put_limits(void)
{
	static const char *const names[] = {
	    "RLIMIT_CPU",	 "RLIMIT_FSIZE",    "RLIMIT_DATA",   "RLIMIT_STACK",
	    "RLIMIT_CORE",	 "RLIMIT_RSS",	    "RLIMIT_NPROC",  "RLIMIT_NOFILE",
	    "RLIMIT_MEMLOCK",	 "RLIMIT_AS",	    "RLIMIT_LOCKS",  "RLIMIT_SIGPENDING",
	    "RLIMIT_MSGQUEUE",	 "RLIMIT_NICE",	    "RLIMIT_RTPRIO", "RLIMIT_RTTIME",
	};
	put_open("rlimits", '{');
	for (size_t i = 0; i < LENGTH(names); i++) {
		struct rlimit limit = {0, 0};
		getrlimit((__rlimit_resource_t)i, &limit);
		put_open(names[i], '[');
		put_unsigned(NULL, limit.rlim_cur);
		put_unsigned(NULL, limit.rlim_max);
		put_close(']');
	}
	put_close('}');
}

void put_signals(void)
{
	sigset_t blocked;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	put_open("blocked", '[');
	for (int number = 1; number < 65; number++)
		if (sigismember(&blocked, number) == 1)
			put_number(NULL, number);
	put_close(']');
	put_open("ignored", '[');
	for (int number = 1; number < 65; number++) {
		struct sigaction action;
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			put_number(NULL, number);
	}
	put_close(']');
}

/* Number -> what /proc says of it ("" without /proc). */
void put_descriptors(void)
{
	put_open("fds", '{');
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		char number[16], name[64], target[4096];
		if (!was_open[fd])
			continue;
		snprintf(number, sizeof(number), "%d", fd);
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(name, target, sizeof(target));
		put_bytes(number, target, length > 0 ? (size_t)length : 0);
	}
	put_close('}');
}

void put_terminal(void)
{
	struct winsize window;
	struct stat info;
	if (!isatty(0) || ioctl(0, TIOCGWINSZ, &window) < 0 || fstat(0, &info) < 0) {
		put_text("terminal", NULL);
		return;
	}
	put_open("terminal", '{');
	put_number("rows", window.ws_row);
	put_number("columns", window.ws_col);
	put_text("name", ttyname(0));
	put_unsigned("rdev", info.st_rdev);
	put_number("foreground", tcgetpgrp(0));
	put_number("session", tcgetsid(0));
	put_open("ttys", '[');
	for (int fd = 0; fd < 3; fd++)
		put_number(NULL, isatty(fd));
	put_close(']');
	put_close('}');
}
