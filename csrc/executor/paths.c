/*
 * Open and create paths in the container.
 *
 * The root filesystem is hostile: each component may be a symbolic link that points to the host,
 * and another container may replace it at any moment. walk.c resolves paths below the root's
 * descriptor; a missing path is created component by component, each opened without following
 * links.
 */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "walk.h"

static int open_how(struct executor *x, const char *path, int flags, uint64_t resolve)
{
	return open_below(x->root_fd, path, flags,
			  resolve | RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int open_inside(struct executor *x, const char *path, int flags)
{
	return open_how(x, path, flags, 0);
}

int open_without_links(struct executor *x, const char *path, int flags)
{
	return open_how(x, path, flags, RESOLVE_NO_SYMLINKS);
}

bool is_there(struct executor *x, const char *path)
{
	int fd = open_inside(x, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Split `path` into its parent's path and its last name; return false, with errno, if too long. */
static bool split_path(const char *path, char parent[PATH_MAX], const char **name)
{
	const char *slash = strrchr(path, '/');
	size_t size = slash ? (size_t)(slash - path) : 0;

	*name = slash ? slash + 1 : path;
	errno = ENAMETOOLONG;
	if (size >= PATH_MAX)
		return false;
	if (size == 0)
		parent[size++] = '/';
	else
		memcpy(parent, path, size);
	parent[size] = '\0';
	return true;
}

/*
 * Create a directory whose parent exists and whose path contains no link: most mount points need
 * only this.  Returns its descriptor, or -1 if it must be walked to, step by step.
 */
static int make_last(struct executor *x, const char *path, mode_t mode)
{
	char parent_path[PATH_MAX];
	const char *name;
	int parent, fd = -1;

	if (!split_path(path, parent_path, &name) || *name == '\0' || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return -1;
	parent = open_how(x, parent_path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
	if (parent < 0)
		return -1;
	if (mkdirat(parent, name, mode) == 0)
		fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	close(parent);
	return fd;
}

int open_real_directory(struct executor *x, const char *path)
{
	int fd = open_how(x, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = make_last(x, path, 0755);
	if (fd >= 0)
		return fd;
	fd = open_directory(x, path, 0755);
	if (fd < 0)
		return fd;
	close(fd);
	return open_how(x, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
}

static int walk_parent(struct executor *x, const struct walk *w)
{
	return open_how(x, w->done[0] ? w->done : "/", O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
}

/* Follow `name` or create it as a directory, and continue from there. */
static int walk_through(struct walk *w, int parent, const char *name, mode_t mode)
{
	int followed = walk_follow(w, parent, name);

	if (followed != 0)
		return followed < 0 ? -1 : 0;
	if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
		return -1;
	return walk_enter(w, name);
}

int open_directory(struct executor *x, const char *path, mode_t mode)
{
	int fd = open_inside(x, path, O_PATH | O_DIRECTORY), more;
	char name[NAME_MAX + 1];
	struct walk w;

	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = make_last(x, path, mode);
	if (fd >= 0 || walk_start(&w, path) < 0)
		return fd;
	while ((more = walk_next(&w, name)) > 0) {
		int parent = walk_parent(x, &w), entered;

		if (parent < 0)
			return -1;
		entered = walk_through(&w, parent, name, mode);
		close(parent);
		if (entered < 0)
			return -1;
	}
	return more < 0 ? -1 : walk_parent(x, &w);
}

int open_parent(struct executor *x, const char *path, const char **name)
{
	char directory[PATH_MAX];

	if (!split_path(path, directory, name))
		return -1;
	return open_directory(x, directory, 0755);
}

/*
 * Create the last component as a file.  Returns 1 with the descriptor in `made`, 0 if it was a link
 * and was followed, or -1 on error.
 */
static int walk_make_file(struct walk *w, int parent, const char *name, int *made)
{
	int followed = walk_follow(w, parent, name);

	if (followed != 0)
		return followed < 0 ? -1 : 0;
	*made = openat(parent, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	/* Another container with the same root created it first. */
	if (*made < 0 && errno == EEXIST)
		*made = open_no_link(parent, name, 0);
	return *made < 0 ? -1 : 1;
}

/* Check the type here: for a file mounted on a directory, the kernel's error would be EINVAL. */
static int no_directory(int fd)
{
	struct stat node;

	if (fstat(fd, &node) == 0 && !S_ISDIR(node.st_mode))
		return fd;
	close(fd);
	errno = EISDIR;
	return -1;
}

int open_file(struct executor *x, const char *path)
{
	int fd = open_inside(x, path, O_PATH), more;
	char name[NAME_MAX + 1];
	struct walk w;

	if (fd >= 0)
		return no_directory(fd);
	if (errno != ENOENT || walk_start(&w, path) < 0)
		return -1;
	while ((more = walk_next(&w, name)) > 0) {
		bool last = w.rest[strspn(w.rest, "/")] == '\0';
		int parent = walk_parent(x, &w), done;

		if (parent < 0)
			return -1;
		done = last ? walk_make_file(&w, parent, name, &fd)
			    : walk_through(&w, parent, name, 0755);
		close(parent);
		if (done < 0)
			return -1;
		if (done > 0)
			return fd;
	}
	if (more == 0)
		errno = EISDIR; /* a link to a directory that was missing a moment ago */
	return -1;
}
