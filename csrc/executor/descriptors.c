/*
 * Close the descriptors inherited from the caller, which the program must not get.  The executor
 * opens its files with O_CLOEXEC.
 */
#include "executor.h"

#include <errno.h>
#include <sys/vfs.h>

#include "kernel.h"

static int close_ranges(unsigned int first, unsigned int low, unsigned int high)
{
	if ((low > first && sys_close_range(first, low - 1, 0) < 0) ||
	    (high > low + 1 && sys_close_range(low + 1, high - 1, 0) < 0) ||
	    sys_close_range(high + 1, ~0U, 0) < 0)
		return -1;
	return sys_close_range(low, high, CLOSE_RANGE_CLOEXEC);
}

static void close_or_hide(int fd, int first, int low, int high, int list)
{
	if (fd == low || fd == high)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	else if (fd >= first && fd != list)
		close(fd);
}

/* Close descriptors one by one, where an outer container's seccomp filter denies close_range(2). */
static int close_listed(int list, int first, int low, int high)
{
	char entries[1024] __attribute__((aligned(8)));
	struct statfs filesystem;
	uint32_t fd;
	long size;

	if (list < 0 || fstatfs(list, &filesystem) < 0 || filesystem.f_type != PROC_SUPER_MAGIC)
		return -1;
	/* The kernel lists descriptors in order, so closing them does not disturb the iteration. */
	while ((size = syscall(SYS_getdents64, list, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < size;) {
			const struct directory_entry *entry = (const void *)(entries + at);

			if (text_number(entry->name, &fd))
				close_or_hide((int)fd, first, low, high, list);
			at += entry->size;
		}
	}
	close(list);
	return size < 0 ? -1 : 0;
}

int close_others(struct executor *x, int preserve_fds)
{
	int low = x->sync_fd < x->init_fd ? x->sync_fd : x->init_fd;
	int high = x->sync_fd < x->init_fd ? x->init_fd : x->sync_fd;
	int first = 3 + preserve_fds;

	errno = EBADF;
	if (low < 3 || low - 3 < preserve_fds || low == high)
		return fail(x, "verify", "descriptors");
	x->preserve_fds = preserve_fds;
	if (close_ranges((unsigned int)first, (unsigned int)low, (unsigned int)high) < 0 &&
	    close_listed(open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), first, low,
			 high) < 0)
		return fail(x, "close_range", "");
	return 0;
}

int close_all_but_0(const struct executor *x)
{
	if (sys_close_range(1, ~0U, 0) == 0)
		return 0;
	return close_listed(openat(x->proc_fd, "self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 1, 0, 0);
}

void hide_preserved(struct executor *x)
{
	for (int fd = 3; fd < 3 + x->preserve_fds; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}
