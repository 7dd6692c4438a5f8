/* calls.c: single system calls, whose result is the report. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char *call, char *const *words, long long result)
{
	int error = result < 0 ? errno : 0;
	put_open(NULL, '{');
	put_text("call", call);
	put_texts("arguments", words);
	put_number("result", result);
	put_text("error", error_name(error));
	put_close('}');
	put_end(report_fd);
}

static long long number(const char *text)
{
	return text[0] == '-' ? strtoll(text, NULL, 0) : (long long)strtoull(text, NULL, 0);
}

static long long try_mknod(char **w)
{
	mode_t kind = w[1][0] == 'b' ? S_IFBLK : w[1][0] == 'p' ? S_IFIFO : S_IFCHR;
	return mknod(w[0], kind | 0666, makedev((unsigned)number(w[2]), (unsigned)number(w[3])));
}

static long long try_mount(char **w)
{
	return mount(w[0], w[1], w[2], (unsigned long)number(w[3]), NULL);
}

static long long try_umount(char **w) { return umount2(w[0], MNT_DETACH); }
static long long try_chown(char **w)
{
	return lchown(w[0], (uid_t)number(w[1]), (gid_t)number(w[2]));
}
static long long try_chmod(char **w) { return chmod(w[0], (mode_t)number(w[1])); }
static long long try_create(char **w)
{
	int fd = open(w[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return fd < 0 ? fd : close(fd);
}
static long long try_unlink(char **w) { return unlink(w[0]); }
static long long try_rename(char **w) { return rename(w[0], w[1]); }
static long long try_link(char **w) { return link(w[0], w[1]); }
static long long try_setuid(char **w)
{
	return setresuid((uid_t)number(w[0]), (uid_t)number(w[0]), (uid_t)number(w[0]));
}
static long long try_setgid(char **w)
{
	return setresgid((gid_t)number(w[0]), (gid_t)number(w[0]), (gid_t)number(w[0]));
}
static long long try_sethostname(char **w) { return sethostname(w[0], strlen(w[0])); }
static long long try_unshare(char **w) { return unshare((int)number(w[0])); }
static long long try_chroot(char **w) { return chroot(w[0]); }
static long long try_kill(char **w) { return kill((pid_t)number(w[0]), signal_number(w[1])); }
static long long try_socket(char **w)
{
	int fd = socket((int)number(w[0]), (int)number(w[1]), (int)number(w[2]));
	return fd < 0 ? fd : close(fd);
}
static long long try_klog(char **w)
{
	(void)w;
	return klogctl(10, NULL, 0);
}
static long long try_setns(char **w)
{
	int fd = open(w[0], O_RDONLY | O_CLOEXEC);
	return fd < 0 ? fd : setns(fd, 0);
}

/* Executes in a child; the result is its exit status. */
static long long try_exec(char **w)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		execve(w[0], w, environ);
		_exit(errno < 128 ? 128 + errno : 255);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) > 128) {
		errno = WEXITSTATUS(status) - 128;
		return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status) - 1000;
}

static const struct {
	const char *name;
	int arguments;
	long long (*call)(char **words);
} calls[] = {
    {"chmod", 2, try_chmod},	 {"chown", 3, try_chown},   {"chroot", 1, try_chroot},
    {"create", 1, try_create},	 {"exec", 1, try_exec},	    {"kill", 2, try_kill},
    {"klog", 0, try_klog},	 {"link", 2, try_link},	    {"mknod", 4, try_mknod},
    {"mount", 4, try_mount},	 {"rename", 2, try_rename}, {"setgid", 1, try_setgid},
    {"sethostname", 1, try_sethostname},		    {"setns", 1, try_setns},
    {"setuid", 1, try_setuid},	 {"socket", 3, try_socket}, {"umount", 1, try_umount},
    {"unlink", 1, try_unlink},	 {"unshare", 1, try_unshare},
};

/* try CALL ARGUMENT...: reports call, arguments, result and error. */
int do_try(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < LENGTH(calls); i++) {
		if (strcmp(calls[i].name, argv[0]) != 0)
			continue;
		if (calls[i].arguments > argc - 1)
			return 121;
		report(argv[0], argv + 1, calls[i].call(argv + 1));
		return -1;
	}
	return 121;
}

static const struct {
	const char *name;
	long number;
} numbers[] = {
    {"acct", SYS_acct},		{"add_key", SYS_add_key},
    {"bpf", SYS_bpf},		{"getcwd", SYS_getcwd},
    {"getpid", SYS_getpid},	{"getppid", SYS_getppid},
    {"getpriority", SYS_getpriority},
    {"getsid", SYS_getsid},	{"keyctl", SYS_keyctl},
    {"kcmp", SYS_kcmp},		{"mkdirat", SYS_mkdirat},
    {"mount", SYS_mount},	{"personality", SYS_personality},
    {"prctl", SYS_prctl},	{"ptrace", SYS_ptrace},
    {"reboot", SYS_reboot},	{"sethostname", SYS_sethostname},
    {"setpriority", SYS_setpriority},
    {"swapon", SYS_swapon},	{"sync", SYS_sync},
    {"syslog", SYS_syslog},	{"umask", SYS_umask},
    {"uname", SYS_uname},	{"unshare", SYS_unshare},
};

/* syscall NAME|NUMBER [ARGUMENT]...: up to six plain numbers. */
int do_syscall(int argc, char **argv)
{
	long a[6] = {0};
	if (argc < 1)
		return 121;
	long call = atol(argv[0]);
	for (size_t i = 0; i < LENGTH(numbers); i++)
		if (strcmp(numbers[i].name, argv[0]) == 0)
			call = numbers[i].number;
	for (int i = 1; i < argc && i < 7; i++)
		a[i - 1] = (long)number(argv[i]);
	report(argv[0], argv + 1, syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]));
	return -1;
}

/* syscall32 NUMBER [ARGUMENT]: through the 32-bit entry of an x86-64 kernel. */
int do_syscall32(int argc, char **argv)
{
	long result = -ENOSYS;
	if (argc < 1)
		return 121;
#ifdef __x86_64__
	long argument = argc > 1 ? (long)number(argv[1]) : 0;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"((long)number(argv[0])), "b"(argument)
			 : "memory", "r8", "r9", "r10", "r11");
	result = (int)result;
#endif
	errno = result < 0 ? (int)-result : 0;
	report(argv[0], argv + 1, result < 0 ? -1 : result);
	return -1;
}
