/*
 * Open a path below a descriptor; the image's symbolic links cannot lead outside.
 *
 * openat2(2) does this in the kernel.  Where an outer seccomp filter denies openat2(2), this file
 * walks the path: each component is opened in its parent's descriptor without following links; the
 * target of a link and ".." are resolved on the path walked so far.  If a component is replaced
 * meanwhile, the result is an error, never a path outside.
 */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"
#include "walk.h"

#define RACE_RETRIES 1000

int open_no_link(int parent, const char *name, int flags)
{
	int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat node;

	if (fd < 0)
		return -1;
	errno = ELOOP;
	if (fstat(fd, &node) == 0 && !S_ISLNK(node.st_mode)) {
		errno = ENOTDIR;
		if (!(flags & O_DIRECTORY) || S_ISDIR(node.st_mode))
			return fd;
	}
	close(fd);
	return -1;
}

static bool same_mount(int one, int other)
{
	uint64_t id = mount_id(one);

	return id && mount_id(other) == id;
}

/* Open the first component of `path` in `parent` and advance `path`; links are not followed. */
static int open_component(int parent, const char **path, int flags)
{
	size_t length = strcspn(*path, "/");
	char name[NAME_MAX + 1];

	if (length > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(name, *path, length);
	name[length] = '\0';
	if (strcmp(name, "..") == 0) { /* at the root, ".." would lead out of it */
		errno = EXDEV;
		return -1;
	}
	*path += length;
	*path += strspn(*path, "/");
	if (**path) /* not the last one */
		return open_no_link(parent, name, 0);
	if (flags & O_PATH)
		return open_no_link(parent, name, flags & O_DIRECTORY);
	return openat(parent, name, flags | O_NOFOLLOW | O_CLOEXEC);
}

/* Open a `path` in which links and ".." are errors. */
static int open_plain(int root, const char *path, int flags, uint64_t resolve)
{
	int fd = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	path += strspn(path, "/");
	while (fd >= 0 && *path) {
		int next = open_component(fd, &path, flags), error = errno;

		close(fd);
		fd = next;
		errno = error;
		if (fd >= 0 && (resolve & RESOLVE_NO_XDEV) && !same_mount(root, fd)) {
			close(fd);
			errno = EXDEV;
			return -1;
		}
	}
	return fd;
}

static int open_walking(int root, const char *path, int flags, uint64_t resolve)
{
	char name[NAME_MAX + 1];
	struct walk w;
	int more;

	if (resolve & RESOLVE_NO_SYMLINKS)
		return open_plain(root, path, flags, resolve);
	if (walk_start(&w, path) < 0)
		return -1;
	while ((more = walk_next(&w, name)) > 0) {
		bool last = w.rest[strspn(w.rest, "/")] == '\0';
		int parent = open_plain(root, w.done, O_PATH | O_DIRECTORY, resolve), followed;

		if (parent < 0)
			return -1;
		followed = last && (flags & O_NOFOLLOW) ? 0 : walk_follow(&w, parent, name);
		close(parent);
		if (followed < 0 || (followed == 0 && walk_enter(&w, name) < 0))
			return -1;
	}
	return more < 0 ? -1 : open_plain(root, w.done, flags, resolve);
}

int open_below(int root, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(uint32_t)(flags | O_CLOEXEC),
		.resolve = resolve,
	};
	int fd, tries = 0;

	/* EAGAIN: a rename somewhere on the host raced with ".."; retry as openat2(2) advises. */
	do {
		fd = sys_openat2(root, path, &how);
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < RACE_RETRIES);
	if (fd < 0 && (errno == ENOSYS || (errno == EPERM && is_missing_call(SYS_openat2))))
		return open_walking(root, path, flags, resolve);
	return fd;
}

int open_again(struct executor *x, int node, int flags)
{
	char data[32];
	struct text path = text_in(data, sizeof(data));

	text_add(&path, "self/fd/");
	text_add_number(&path, (uint32_t)node, 10);
	return openat(x->proc_fd, data, flags | O_NOCTTY | O_CLOEXEC);
}
