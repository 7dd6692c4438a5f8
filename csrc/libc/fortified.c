/*
 * Fortified functions (LSB, libc-ddefs): the C library's headers call these with -D_FORTIFY_SOURCE
 * where the compiler knows the size of a buffer, but not if the data fits.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Noreturn void __chk_fail(void);
void *__memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room);
void *__memmove_chk(void *to, const void *from, size_t size, size_t room);
void *__memset_chk(void *at, int value, size_t size, size_t room);
char *__strcpy_chk(char *restrict to, const char *restrict from, size_t room);
ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
ssize_t __readlinkat_chk(int directory, const char *path, char *to, size_t size, size_t room);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __open_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);

static void check(size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
}

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room)
{
	check(size, room);
	return memcpy(to, from, size);
}

void *__memmove_chk(void *to, const void *from, size_t size, size_t room)
{
	check(size, room);
	return memmove(to, from, size);
}

void *__memset_chk(void *at, int value, size_t size, size_t room)
{
	check(size, room);
	return memset(at, value, size);
}

char *__strcpy_chk(char *restrict to, const char *restrict from, size_t room)
{
	size_t size = strlen(from) + 1;

	check(size, room);
	return memcpy(to, from, size);
}

ssize_t __read_chk(int fd, void *to, size_t size, size_t room)
{
	check(size, room);
	return read(fd, to, size);
}

ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room)
{
	check(size, room);
	return pread(fd, to, size, at);
}

ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
	check(size, room);
	return recv(fd, to, size, flags);
}

ssize_t __readlinkat_chk(int directory, const char *path, char *to, size_t size, size_t room)
{
	check(size, room);
	return readlinkat(directory, path, to, size);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	check(count, room / sizeof(*fds));
	return poll(fds, count, timeout);
}

/* Abort if the flags require a mode argument: these variants of open have none. */
static void check_mode(int flags)
{
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
		__chk_fail();
}

int __open_2(const char *path, int flags)
{
	check_mode(flags);
	return open(path, flags);
}

int __openat_2(int directory, const char *path, int flags)
{
	check_mode(flags);
	return openat(directory, path, flags);
}
