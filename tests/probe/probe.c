/*
 * probe: prints what a process sees of itself, as one JSON object.
 *
 * Facts come from system calls where there is one, so that they hold without
 * /proc; those from /proc are null when it is not mounted.
 *
 *   probe           print the facts
 *   probe sleep     print them, then wait for a signal
 *   probe notify M  send the message to $NOTIFY_SOCKET
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <termios.h>
#include <unistd.h>

static const char *separator = "";

static void key(const char *name)
{
	printf("%s\n \"%s\": ", separator, name);
	separator = ",";
}

static void number(const char *name, long long value)
{
	key(name);
	printf("%lld", value);
}

static void quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void string(const char *name, const char *value)
{
	key(name);
	if (value)
		quoted(value);
	else
		printf("null");
}

static void list(const char *name, char *const *values)
{
	key(name);
	putchar('[');
	for (const char *comma = ""; *values; values++, comma = ", ") {
		printf("%s", comma);
		quoted(*values);
	}
	putchar(']');
}

/* First line of a file, NULL if it cannot be read. */
static const char *line_of(const char *path)
{
	static char line[4096];
	FILE *file = fopen(path, "re");
	if (!file)
		return NULL;
	char *got = fgets(line, sizeof(line), file);
	fclose(file);
	if (!got)
		return "";
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static void identity(void)
{
	gid_t groups[256];
	int count = getgroups(256, groups);
	uid_t uid, euid, suid;
	gid_t gid, egid, sgid;
	getresuid(&uid, &euid, &suid);
	getresgid(&gid, &egid, &sgid);
	number("pid", getpid());
	number("ppid", getppid());
	number("pgid", getpgid(0));
	number("sid", getsid(0));
	number("uid", uid);
	number("euid", euid);
	number("suid", suid);
	number("gid", gid);
	number("egid", egid);
	number("sgid", sgid);
	key("groups");
	putchar('[');
	for (int i = 0; i < count; i++)
		printf("%s%u", i ? ", " : "", groups[i]);
	putchar(']');
	mode_t mask = umask(0);
	umask(mask);
	number("umask", mask);
}

static void capability_sets(void)
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
	key("capabilities");
	printf("{\"effective\": %llu, \"permitted\": %llu, \"inheritable\": %llu, ",
	       (unsigned long long)data[1].effective << 32 | data[0].effective,
	       (unsigned long long)data[1].permitted << 32 | data[0].permitted,
	       (unsigned long long)data[1].inheritable << 32 | data[0].inheritable);
	printf("\"bounding\": %llu, \"ambient\": %llu}", bounding, ambient);
	number("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	number("securebits", prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	number("dumpable", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	int death = -1;
	prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	number("pdeathsig", death);
	int subreaper = -1;
	prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	number("subreaper", subreaper);
	number("personality", personality(0xffffffff));
	number("priority", getpriority(PRIO_PROCESS, 0));
}

static void limits(void)
{
	static const char *const names[] = {
	    "CPU",     "FSIZE", "DATA",  "STACK",      "CORE",     "RSS",  "NPROC",  "NOFILE",
	    "MEMLOCK", "AS",    "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};
	key("rlimits");
	putchar('{');
	for (int i = 0; i < 16; i++) {
		struct rlimit limit = {0, 0};
		getrlimit((__rlimit_resource_t)i, &limit);
		printf("%s\"RLIMIT_%s\": [%llu, %llu]", i ? ", " : "", names[i],
		       (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
	}
	putchar('}');
}

static void signals(void)
{
	sigset_t blocked;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int kind = 0; kind < 2; kind++) {
		const char *comma = "";
		key(kind ? "ignored" : "blocked");
		putchar('[');
		for (int number = 1; number < 65; number++) {
			struct sigaction action;
			int hit = kind ? sigaction(number, NULL, &action) == 0 &&
					     action.sa_handler == SIG_IGN
				       : sigismember(&blocked, number) == 1;
			if (hit) {
				printf("%s%d", comma, number);
				comma = ", ";
			}
		}
		putchar(']');
	}
}

/* Open descriptors with what /proc says of them ("" without /proc). */
static void descriptors(void)
{
	const char *comma = "";
	key("fds");
	putchar('{');
	for (int fd = 0; fd < 4096; fd++) {
		char name[64], target[4096] = "";
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(name, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		printf("%s\"%d\": ", comma, fd);
		quoted(target);
		comma = ", ";
	}
	putchar('}');
	struct winsize size;
	key("tty");
	if (isatty(0) && ioctl(0, TIOCGWINSZ, &size) == 0)
		printf("{\"rows\": %u, \"columns\": %u, \"name\": \"%s\", \"foreground\": %d, "
		       "\"session\": %d}",
		       size.ws_row, size.ws_col, ttyname(0) ? ttyname(0) : "", tcgetpgrp(0),
		       tcgetsid(0));
	else
		printf("null");
}

static void namespaces(void)
{
	static const char *const kinds[] = {"mnt", "pid",  "net",  "ipc",
					    "uts", "user", "time", "cgroup"};
	const char *comma = "";
	key("namespaces");
	putchar('{');
	for (int i = 0; i < 8; i++) {
		char path[64], target[64];
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		ssize_t length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		printf("%s\"%s\": \"%s\"", comma, kinds[i], target);
		comma = ", ";
	}
	putchar('}');
}

static void surroundings(char *const *argv)
{
	struct utsname name;
	char cwd[4096];
	struct stat root;
	uname(&name);
	string("hostname", name.nodename);
	string("domainname", name.domainname);
	string("cwd", getcwd(cwd, sizeof(cwd)));
	list("argv", argv);
	list("env", environ);
	stat("/", &root);
	number("root_inode", (long long)root.st_ino);
	string("oom_score_adj", line_of("/proc/self/oom_score_adj"));
	string("timens_offsets", line_of("/proc/self/timens_offsets"));
	string("uid_map", line_of("/proc/self/uid_map"));
	string("gid_map", line_of("/proc/self/gid_map"));
	string("cgroup", line_of("/proc/self/cgroup"));
	number("seccomp", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	number("scheduler", sched_getscheduler(0));
	number("keyring", syscall(SYS_keyctl, 0, -3, 0));
	/* Takes no capability, and the default filters of the engines refuse it. */
	number("fixed_addresses", personality(ADDR_NO_RANDOMIZE) == -1 ? errno : 0);
	char exe[4096];
	ssize_t length = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[length > 0 ? length : 0] = '\0';
	string("exe", exe);
}

/* Name -> kind, numbers, mode and owner of everything directly in /dev. */
static void devices(void)
{
	DIR *directory = opendir("/dev");
	const char *comma = "";
	struct dirent *entry;
	key("devices");
	putchar('{');
	while (directory && (entry = readdir(directory))) {
		struct stat info;
		char link[256] = "";
		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW))
			continue;
		ssize_t length =
		    readlinkat(dirfd(directory), entry->d_name, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		char kind = S_ISCHR(info.st_mode)   ? 'c'
			    : S_ISBLK(info.st_mode) ? 'b'
			    : S_ISDIR(info.st_mode) ? 'd'
			    : S_ISLNK(info.st_mode) ? 'l'
			    : S_ISFIFO(info.st_mode) ? 'p'
						     : 'f';
		printf("%s\"%s\": {\"kind\": \"%c\", \"major\": %u, \"minor\": %u, \"mode\": %u, "
		       "\"uid\": %u, \"gid\": %u, \"link\": \"%s\"}",
		       comma, entry->d_name, kind, major(info.st_rdev), minor(info.st_rdev),
		       info.st_mode & 07777, info.st_uid, info.st_gid, link);
		comma = ", ";
	}
	putchar('}');
	if (directory)
		closedir(directory);
}

/* Each argument is a message to $NOTIFY_SOCKET, as of sd_notify(3). */
static int notify(char **messages)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	const char *path = getenv("NOTIFY_SOCKET");

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path ? path : "");
	for (; *messages; messages++)
		if (sendto(fd, *messages, strlen(*messages), 0, (struct sockaddr *)&address,
			   sizeof(address)) < 0)
			return errno;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "notify") == 0)
		return notify(argv + 2);
	/* Before stdio opens anything. */
	putchar('{');
	descriptors();
	identity();
	capability_sets();
	limits();
	signals();
	namespaces();
	surroundings(argv);
	devices();
	puts("\n}");
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "sleep") == 0)
		pause();
	return 0;
}
