/*
 * Identify mounts that this executor has made earlier.  A mount that is changed later is looked up
 * by its path, but another container may have replaced a component of the path.  Therefore the
 * mount at the path is changed only if this executor has made it, or if the runtime recognises it.
 */
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"

static bool shows_the_kernel(int mount)
{
	struct statfs filesystem;

	return fstatfs(mount, &filesystem) == 0 && (filesystem.f_type == PROC_SUPER_MAGIC ||
						    filesystem.f_type == SYSFS_MAGIC);
}

void note_mount(struct executor *x, int tree, const char *target)
{
	struct made_mount *made = &x->made_mounts[x->made_count++ % MADE_MOUNTS];

	made->target = target;
	made->id = mount_id(tree);
	made->of_kernel = shows_the_kernel(tree);
	x->kernel_point = NULL; /* the mount may be at the same target */
}

/* Return the id of the last mount made at `target`, 0 if there is none. */
static uint64_t expected_id(const struct executor *x, const char *target)
{
	uint32_t known = x->made_count < MADE_MOUNTS ? x->made_count : MADE_MOUNTS;

	for (uint32_t i = 1; i <= known; i++) {
		const struct made_mount *made = &x->made_mounts[(x->made_count - i) % MADE_MOUNTS];

		if (strcmp(made->target, target) == 0)
			return made->id;
	}
	return 0;
}

int open_mount(struct executor *x, const char *target)
{
	uint64_t expected = expected_id(x, target);
	int fd = open_inside(x, target, O_PATH);

	if (fd < 0)
		return fail(x, "open", target);
	if (!expected || mount_id(fd) == expected)
		return fd;
	close(fd);
	errno = ESTALE;
	return fail(x, "verify", target);
}

/* Return the part of `target` below `point`, or NULL if it is not below. */
static const char *rest_below(const char *target, const char *point)
{
	size_t length = strlen(point);

	if (strncmp(target, point, length) != 0 ||
	    (target[length] != '\0' && target[length] != '/'))
		return NULL;
	return target + length + strspn(target + length, "/");
}

/*
 * Find the procfs or sysfs mount made here that contains `target`, or NULL; `rest` is the path
 * inside it.
 */
static const char *kernel_mount(const struct executor *x, const char *target, const char **rest)
{
	uint32_t known = x->made_count < MADE_MOUNTS ? x->made_count : MADE_MOUNTS;
	const char *nearest = NULL;

	*rest = target;
	for (uint32_t i = 0; i < known; i++) {
		const struct made_mount *made = &x->made_mounts[i];
		const char *below = rest_below(target, made->target);

		if (!made->of_kernel || !below || strlen(below) > strlen(*rest))
			continue;
		nearest = made->target;
		*rest = below;
	}
	return nearest;
}

/* Return a descriptor of the mount made at `point`, which stays open for the next path; or -1. */
static int kernel_mount_at(struct executor *x, const char *point)
{
	int fd, error;

	if (x->kernel_point == point)
		return x->kernel_fd;
	fd = open_mount(x, point);
	if (fd < 0) {
		/* A mount was made at this path: if it is missing now, it has been replaced. */
		error = x->failure.error;
		errno = error == ENOENT || error == ENOTDIR || error == ELOOP ? ESTALE : error;
		return -1;
	}
	if (x->kernel_fd >= 0)
		close(x->kernel_fd);
	x->kernel_fd = fd;
	x->kernel_point = point;
	return fd;
}

/*
 * Open a path that is to be masked or made read-only.  A missing path is skipped by the caller.
 * But a container with the same root filesystem could move /proc away for a moment, which would
 * leave our /proc unmasked.  Therefore paths in procfs or sysfs are looked up in the mount that was
 * made.  Records no failure.
 */
int open_restricted(struct executor *x, const char *target)
{
	const char *rest, *point = kernel_mount(x, target, &rest);
	int mount;

	if (!point)
		return open_inside(x, target, O_PATH);
	mount = kernel_mount_at(x, point);
	return mount < 0 ? -1 :
	       *rest	 ? open_below(mount, rest, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS) :
			   open_mount(x, point);
}

/*
 * Unmount self/fd/N below the host's /proc, which becomes the working directory: the /proc of the
 * joined namespace shows other processes, or none.
 */
static int unmount(struct executor *x, int target, const char *name)
{
	char data[32];
	struct text path = text_in(data, sizeof(data));

	text_add(&path, "self/fd/");
	text_add_number(&path, (uint32_t)target, 10);
	if (fchdir(x->proc_fd) < 0 || sys_umount(data, MNT_DETACH) < 0)
		return fail(x, "umount2", name);
	return 0;
}

int run_unmount(struct executor *x, struct op_unmount *op)
{
	int target = op->follow ? open_inside(x, op->target, O_PATH)
				: open_without_links(x, op->target, O_PATH);
	int result;

	if (target < 0)
		return fail(x, "open", op->target);
	result = present_mount(x, target);
	if (result > 0)
		result = unmount(x, target, op->target);
	close(target);
	return result;
}

int run_restrict(struct executor *x, struct op_restrict *op)
{
	int target = open_without_links(x, op->target, O_PATH), result;

	if (target < 0)
		return fail(x, "open", op->target);
	result = present_mount(x, target);
	/* mount(2) would name the descriptor in a /proc that the container may have replaced. */
	errno = ENOSYS;
	if (result > 0 && !x->has_mount_api)
		result = fail(x, "mount_setattr", op->target);
	if (result > 0)
		result = change_mount(x, target, op->set_attributes, 0, false, op->target);
	close(target);
	return result;
}

/*
 * Return true if `target` is the container's root, or a file in its /proc reached through a link.
 */
static bool confines(struct executor *x, int target, const char *name)
{
	struct stat place, root;
	struct statfs filesystem;

	if (fstat(target, &place) < 0 || fstat(x->root_fd, &root) < 0 ||
	    fstatfs(target, &filesystem) < 0)
		return true;
	if (place.st_dev == root.st_dev && place.st_ino == root.st_ino)
		return true;
	return filesystem.f_type == PROC_SUPER_MAGIC && strncmp(name, "/proc/", 6) != 0;
}

/*
 * Let the runtime check the target before a mount is attached in a running container, whose
 * processes can replace components of the path.
 */
int present_new_mount(struct executor *x, int tree, int target, const char *name)
{
	int result;

	if (confines(x, target, name)) {
		errno = ELOOP;
		return fail(x, "open", name);
	}
	result = present_mount(x, tree);
	errno = ECANCELED;
	return result == 0 ? fail(x, "move_mount", name) : result;
}
