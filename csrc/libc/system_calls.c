/*
 * System calls under the names and with the errno of POSIX.
 *
 * Structures have the kernel's layout: on these processors the C library's headers declare the same.
 * If several system calls serve one purpose, the newest that all these processors have is used.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static int last_error;

int *__errno_location(void)
{
	return &last_error;
}

static long call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	long result;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	result = x0;
#endif
	if (result >= 0 || result < -4095)
		return result;
	last_error = (int)-result;
	return -1;
}

#define CALL(number, ...) CALL_OF(number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_OF(number, a, b, c, d, e, f, ...) \
	call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

long syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Read the optional last argument of open, fcntl or ioctl. */
#define OPTIONAL(type, last, value) \
	va_list list;               \
	va_start(list, last);       \
	type value = va_arg(list, type); \
	va_end(list)

int openat(int directory, const char *path, int flags, ...)
{
	OPTIONAL(mode_t, flags, mode);
	return (int)CALL(SYS_openat, directory, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	OPTIONAL(mode_t, flags, mode);
	return (int)CALL(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
	OPTIONAL(long, command, value);
	return (int)CALL(SYS_fcntl, fd, command, value);
}

int ioctl(int fd, unsigned long request, ...)
{
	OPTIONAL(long, request, value);
	return (int)CALL(SYS_ioctl, fd, request, value);
}

int prctl(int option, ...)
{
	va_list list;
	long a[4];

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return (int)CALL(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

void _exit(int status)
{
	for (;;)
		CALL(SYS_exit_group, status);
}

/* Define a wrapper: result, name and parameters as in the manual page, then number and arguments. */
#define DEFINE(type, name, parameters, ...)         \
	type name parameters                        \
	{                                           \
		return (type)CALL(__VA_ARGS__);     \
	}

/* descriptors */
DEFINE(int, close, (int fd), SYS_close, fd)
DEFINE(int, dup2, (int from, int to), SYS_dup3, from, to, 0)
DEFINE(int, pipe2, (int ends[2], int flags), SYS_pipe2, ends, flags)
DEFINE(ssize_t, read, (int fd, void *to, size_t size), SYS_read, fd, to, size)
DEFINE(ssize_t, write, (int fd, const void *from, size_t size), SYS_write, fd, from, size)
DEFINE(ssize_t, pread, (int fd, void *to, size_t size, off_t at), SYS_pread64, fd, to, size, at)
DEFINE(int, ftruncate, (int fd, off_t size), SYS_ftruncate, fd, size)
DEFINE(off_t, lseek, (int fd, off_t to, int whence), SYS_lseek, fd, to, whence)
DEFINE(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), SYS_sendfile, to, from, at,
       size)
DEFINE(int, memfd_create, (const char *name, unsigned int flags), SYS_memfd_create, name, flags)
DEFINE(void *, mmap, (void *at, size_t size, int access, int flags, int fd, off_t offset),
       SYS_mmap, at, size, access, flags, fd, offset)

DEFINE(int, munmap, (void *at, size_t size), SYS_munmap, at, size)
DEFINE(int, madvise, (void *at, size_t size, int advice), SYS_madvise, at, size, advice)
DEFINE(int, mincore, (void *at, size_t size, unsigned char *resident), SYS_mincore, at, size, resident)

void *mremap(void *at, size_t size, size_t new_size, int flags, ...)
{
	OPTIONAL(void *, flags, to);
	return (void *)CALL(SYS_mremap, at, size, new_size, flags, to);
}

/* files */
DEFINE(int, fstat, (int fd, struct stat *node), SYS_fstat, fd, node)
DEFINE(int, fstatat, (int directory, const char *path, struct stat *node, int flags),
       SYS_newfstatat, directory, path, node, flags)
DEFINE(int, stat, (const char *path, struct stat *node), SYS_newfstatat, AT_FDCWD, path, node)
DEFINE(int, fstatfs, (int fd, struct statfs *filesystem), SYS_fstatfs, fd, filesystem)
DEFINE(int, faccessat, (int directory, const char *path, int mode, int flags), SYS_faccessat2,
       directory, path, mode, flags)
DEFINE(int, access, (const char *path, int mode), SYS_faccessat, AT_FDCWD, path, mode)
DEFINE(int, flock, (int fd, int operation), SYS_flock, fd, operation)
DEFINE(int, fchown, (int fd, uid_t uid, gid_t gid), SYS_fchown, fd, uid, gid)
DEFINE(int, fchownat, (int directory, const char *path, uid_t uid, gid_t gid, int flags),
       SYS_fchownat, directory, path, uid, gid, flags)
DEFINE(int, utimensat, (int directory, const char *path, const struct timespec times[2], int flags),
       SYS_utimensat, directory, path, times, flags)
DEFINE(ssize_t, readlinkat, (int directory, const char *path, char *to, size_t size),
       SYS_readlinkat, directory, path, to, size)
DEFINE(ssize_t, readlink, (const char *path, char *to, size_t size), SYS_readlinkat, AT_FDCWD, path,
       to, size)
DEFINE(int, renameat, (int from, const char *old_path, int to, const char *new_path),
       SYS_renameat2, from, old_path, to, new_path, 0)
DEFINE(int, symlinkat, (const char *text, int directory, const char *path), SYS_symlinkat, text,
       directory, path)
DEFINE(int, unlinkat, (int directory, const char *path, int flags), SYS_unlinkat, directory, path,
       flags)
DEFINE(int, rmdir, (const char *path), SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
DEFINE(int, mkdirat, (int directory, const char *path, mode_t mode), SYS_mkdirat, directory, path,
       mode)
DEFINE(mode_t, umask, (mode_t mask), SYS_umask, mask)
DEFINE(int, chdir, (const char *path), SYS_chdir, path)
DEFINE(int, fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
       SYS_fsetxattr, fd, name, value, size, flags)
DEFINE(int, fchdir, (int fd), SYS_fchdir, fd)
DEFINE(int, chroot, (const char *path), SYS_chroot, path)

int mknodat(int directory, const char *path, mode_t mode, dev_t device)
{
	if ((unsigned int)device != device) {
		errno = EINVAL;
		return -1;
	}
	return (int)CALL(SYS_mknodat, directory, path, mode, device);
}

int fchmodat(int directory, const char *path, mode_t mode, int flags)
{
	if (flags != 0) { /* the old system call has none */
		errno = ENOTSUP;
		return -1;
	}
	return (int)CALL(SYS_fchmodat, directory, path, mode);
}

/* Called where the compiler does not inline it. */
dev_t gnu_dev_makedev(unsigned int major, unsigned int minor);
dev_t gnu_dev_makedev(unsigned int major, unsigned int minor)
{
	return (dev_t)(minor & 0xff) | (dev_t)(major & 0xfff) << 8 |
	       (dev_t)(minor & ~0xffu) << 12 | (dev_t)(major & ~0xfffu) << 32;
}

/* sockets */
DEFINE(int, socket, (int domain, int type, int protocol), SYS_socket, domain, type, protocol)
DEFINE(int, socketpair, (int domain, int type, int protocol, int ends[2]), SYS_socketpair, domain,
       type, protocol, ends)
DEFINE(int, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), SYS_accept4,
       fd, address, size, flags)
DEFINE(int, connect, (int fd, const struct sockaddr *address, socklen_t size), SYS_connect, fd,
       address, size)
DEFINE(ssize_t, send, (int fd, const void *from, size_t size, int flags), SYS_sendto, fd, from, size,
       flags)
DEFINE(ssize_t, recv, (int fd, void *to, size_t size, int flags), SYS_recvfrom, fd, to, size, flags)
DEFINE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg, fd, message,
       flags)
DEFINE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg, fd,
       message, flags)

/* processes */
DEFINE(pid_t, getpid, (void), SYS_getpid, 0)
DEFINE(uid_t, geteuid, (void), SYS_geteuid, 0)
DEFINE(pid_t, setsid, (void), SYS_setsid, 0)
DEFINE(int, setpgid, (pid_t pid, pid_t group), SYS_setpgid, pid, group)
DEFINE(int, kill, (pid_t pid, int number), SYS_kill, pid, number)
/* fork(2) as a clone(2) that shares nothing; SIGCHLD is the signal at the child's exit. */
DEFINE(pid_t, fork, (void), SYS_clone, SIGCHLD)
DEFINE(pid_t, waitpid, (pid_t pid, int *status, int options), SYS_wait4, pid, status, options)
DEFINE(int, execve, (const char *path, char *const argv[], char *const env[]), SYS_execve, path,
       argv, env)
DEFINE(int, nanosleep, (const struct timespec *time, struct timespec *left), SYS_nanosleep, time,
       left)
DEFINE(int, setgroups, (size_t count, const gid_t *groups), SYS_setgroups, count, groups)
DEFINE(int, setresuid, (uid_t real, uid_t effective, uid_t saved), SYS_setresuid, real, effective,
       saved)
DEFINE(int, setresgid, (gid_t real, gid_t effective, gid_t saved), SYS_setresgid, real, effective,
       saved)
DEFINE(int, personality, (unsigned long domain), SYS_personality, domain)

int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	struct timespec limit = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	return (int)CALL(SYS_ppoll, fds, count, milliseconds < 0 ? NULL : &limit, NULL, 8);
}

/* namespaces */
DEFINE(int, unshare, (int flags), SYS_unshare, flags)
DEFINE(int, setns, (int fd, int kind), SYS_setns, fd, kind)
DEFINE(int, sethostname, (const char *name, size_t size), SYS_sethostname, name, size)
DEFINE(int, setdomainname, (const char *name, size_t size), SYS_setdomainname, name, size)
