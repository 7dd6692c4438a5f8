/*
 * Copy a directory's content into the tmpfs that is about to cover it.
 *
 * Both trees are walked by descriptors.  In the image, no link is followed and no other mount is
 * entered, so that only the directory's own files are copied.  The new filesystem is not attached
 * yet, so no other process can write to it.
 */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#define DEPTH_LIMIT 128 /* each level takes two descriptors and a piece of the stack */
#define SEND_SIZE 0x40000000u

struct copy {
	struct executor *x;
	const char *path; /* the directory, for error messages */
	int depth;
};

static int failed(struct copy *c, const char *call, const char *name)
{
	char data[NAME_MAX + 16];
	struct text words = text_in(data, sizeof(data));

	/* Format the message like the kernel's: "e " for an error, then the text. */
	text_add(&words, "e copying \"");
	text_add(&words, name);
	text_add(&words, "\"");
	return fail_detail(c->x, call, c->path, data);
}

static int open_entry(int directory, const char *name, int flags)
{
	return open_below(directory, name, flags | O_RDONLY | O_NONBLOCK,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static int set_times(struct copy *c, int to, const char *name, const struct stat *node)
{
	struct timespec times[2] = { node->st_atim, node->st_mtim };

	if (utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(c, "utimensat", name);
	return 0;
}

/* Set the owner before the mode, because a change of the owner clears the setuid bit. */
static int settle(struct copy *c, int to, const char *name, const struct stat *node)
{
	if (fchownat(to, name, node->st_uid, node->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(c, "chown", name);
	if (!S_ISLNK(node->st_mode) && fchmodat(to, name, node->st_mode & 07777, 0) < 0)
		return failed(c, "chmod", name);
	return set_times(c, to, name, node);
}

static int copy_file(struct copy *c, int file, int to, const char *name)
{
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t sent;

	if (out < 0)
		return failed(c, "open", name);
	do {
		sent = sendfile(out, file, NULL, SEND_SIZE);
	} while (sent > 0 || (sent < 0 && errno == EINTR));
	if (sent < 0)
		(void)failed(c, "sendfile", name);
	close(out);
	return sent < 0 ? -1 : 0;
}

static int copy_content(struct copy *c, int from, int to);

static int copy_directory(struct copy *c, int from, int to, const char *name)
{
	int inner, result;

	if (mkdirat(to, name, 0700) < 0)
		return failed(c, "mkdir", name);
	inner = openat(to, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (inner < 0)
		return failed(c, "open", name);
	c->depth++;
	result = copy_content(c, from, inner);
	c->depth--;
	close(inner);
	return result;
}

static int copy_opened(struct copy *c, int from, int to, const char *name, struct stat *node)
{
	int result;

	if (fstat(from, node) < 0)
		return failed(c, "stat", name);
	if (S_ISDIR(node->st_mode)) {
		result = copy_directory(c, from, to, name);
	} else if (S_ISREG(node->st_mode)) {
		result = copy_file(c, from, to, name);
	} else {
		errno = ESTALE; /* replaced since its type was checked */
		return failed(c, "verify", name);
	}
	return result < 0 ? -1 : settle(c, to, name, node);
}

static int copy_link(struct copy *c, int from, int to, const char *name, const struct stat *node)
{
	char text[PATH_MAX];
	ssize_t length = readlinkat(from, name, text, sizeof(text));

	if (length < 0 || length == (ssize_t)sizeof(text))
		return failed(c, "readlink", name);
	text[length] = '\0';
	if (symlinkat(text, to, name) < 0)
		return failed(c, "symlink", name);
	return settle(c, to, name, node);
}

static int copy_entry(struct copy *c, int from, int to, const char *name)
{
	struct stat node;
	int fd, result;

	if (fstatat(from, name, &node, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(c, "stat", name);
	if (S_ISLNK(node.st_mode))
		return copy_link(c, from, to, name, &node);
	if (!S_ISDIR(node.st_mode) && !S_ISREG(node.st_mode)) {
		if (mknodat(to, name, node.st_mode, node.st_rdev) < 0)
			return failed(c, "mknod", name);
		return settle(c, to, name, &node);
	}
	fd = open_entry(from, name, S_ISDIR(node.st_mode) ? O_DIRECTORY : 0);
	if (fd < 0)
		return errno == EXDEV ? 0 : failed(c, "open", name);
	result = copy_opened(c, fd, to, name, &node);
	close(fd);
	return result;
}

static int copy_content(struct copy *c, int from, int to)
{
	char entries[1024] __attribute__((aligned(8)));
	long size;

	if (c->depth > DEPTH_LIMIT) {
		errno = ENAMETOOLONG;
		return failed(c, "open", "directories nested over 128 deep");
	}
	while ((size = syscall(SYS_getdents64, from, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < size;) {
			const struct directory_entry *entry = (const void *)(entries + at);

			if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0 &&
			    copy_entry(c, from, to, entry->name) < 0)
				return -1;
			at += entry->size;
		}
	}
	return size < 0 ? failed(c, "getdents64", "") : 0;
}

int copy_up(struct executor *x, int source, int target, const char *path)
{
	struct copy c = { .x = x, .path = path };
	int from = openat(source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result;
	struct stat node;

	if (from < 0)
		return fail(x, "open", path);
	result = fstat(from, &node) < 0 ? failed(&c, "stat", ".") : copy_content(&c, from, target);
	close(from);
	/* The mount's options set the owner and mode of the root itself. */
	return result < 0 ? -1 : set_times(&c, target, ".", &node);
}
