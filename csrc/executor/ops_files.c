/* Directories, device nodes and links of the container, and files of the host's procfs. */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernel.h"

int run_mkdir(struct executor *x, struct op_mkdir *op)
{
	int fd = open_directory(x, op->target, op->mode);

	if (fd < 0)
		return fail(x, "mkdir", op->target);
	close(fd);
	return 0;
}

static bool is_wanted(const struct stat *node, const struct op_device *op)
{
	return (node->st_mode & S_IFMT) == (op->mode & S_IFMT) &&
	       (S_ISFIFO(node->st_mode) || node->st_rdev == makedev(op->major, op->minor));
}

/* Fail unless an existing node is the requested device (LNX-DEV-03). */
static int verify_node(struct executor *x, int parent, const char *name, struct op_device *op)
{
	struct stat node;

	if (fstatat(parent, name, &node, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(x, "stat", op->target);
	errno = EEXIST;
	return is_wanted(&node, op) ? 0 : fail(x, "mknod", op->target);
}

/*
 * Set owner and mode of a new node through a descriptor: another container could replace the file.
 */
static int own_node(struct executor *x, int parent, const char *name, struct op_device *op)
{
	int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), result = 0;
	struct stat node;

	if (fd < 0)
		return fail(x, "open", op->target);
	if (fstat(fd, &node) < 0 || !is_wanted(&node, op)) {
		errno = EEXIST;
		result = fail(x, "verify", op->target);
	} else if (fchownat(fd, "", op->uid, op->gid, AT_EMPTY_PATH) < 0) {
		result = fail(x, "chown", op->target);
	}
	close(fd);
	return result;
}

/* Bind-mount the host's node, because mknod(2) is not permitted in a user namespace. */
static int bind_node(struct executor *x, struct op_device *op)
{
	int source = open(op->source, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int tree, target, result;
	struct stat node;

	if (source < 0 || fstat(source, &node) < 0)
		return fail(x, "open_tree", op->source);
	errno = ENODEV;
	if (!is_wanted(&node, op))
		return fail(x, "verify", op->source);
	target = open_file(x, op->target);
	if (target < 0)
		return fail(x, "open", op->target);
	tree = copy_mounts(x, source, false, op->source);
	close(source);
	if (tree < 0)
		return -1;
	/*
	 * Bind it read-only: the device still opens for writing, but the host's inode cannot be
	 * changed.
	 */
	result = change_mount(x, tree, MOUNT_ATTR_RDONLY, 0, false, op->source);
	if (result == 0)
		result = attach_tree(x, tree, target, op->target);
	close(target);
	close(tree);
	return result;
}

int run_device(struct executor *x, struct op_device *op)
{
	const char *name;
	int parent = open_parent(x, op->target, &name), result = 0;

	if (parent < 0)
		return fail(x, "open", op->target);
	if (mknodat(parent, name, op->mode, makedev(op->major, op->minor)) == 0) {
		result = own_node(x, parent, name, op);
	} else if (errno == EEXIST) {
		result = verify_node(x, parent, name, op);
	} else if (errno == EPERM && op->source[0]) {
		result = bind_node(x, op);
	} else {
		result = fail(x, "mknod", op->target);
	}
	close(parent);
	return result;
}

static bool exists(struct executor *x, const char *path)
{
	int fd = open_inside(x, path, O_PATH);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool points_to(int parent, const char *name, const char *text)
{
	char now[PATH_MAX];
	ssize_t length = readlinkat(parent, name, now, sizeof(now));

	return length == (ssize_t)strlen(text) && memcmp(now, text, (size_t)length) == 0;
}

int run_symlink(struct executor *x, struct op_symlink *op)
{
	const char *name;
	int parent, result = 0;

	if (op->requires[0] && !exists(x, op->requires))
		return 0;
	parent = open_parent(x, op->target, &name);
	if (parent < 0)
		return fail(x, "open", op->target);
	if (symlinkat(op->text, parent, name) < 0) {
		if (errno != EEXIST)
			result = fail(x, "symlink", op->target);
		else if (op->replace && !points_to(parent, name, op->text) &&
			 (unlinkat(parent, name, 0) < 0 || symlinkat(op->text, parent, name) < 0))
			result = fail(x, "symlink", op->target);
	}
	close(parent);
	return result;
}

static int open_proc(struct executor *x, const char *path)
{
	/* Refuse a path that crosses a mount in /proc, or a link that leads out of it. */
	const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
	int fd = open_below(x->proc_fd, path, O_WRONLY, resolve);

	if (fd >= 0 || errno != EACCES || strncmp(path, "self/", 5) != 0)
		return fd;
	/* While a process is undumpable, its files in procfs belong to the host's root. */
	prctl(PR_SET_DUMPABLE, 1);
	fd = open_below(x->proc_fd, path, O_WRONLY, resolve);
	prctl(PR_SET_DUMPABLE, 0);
	return fd;
}

int run_write_proc(struct executor *x, struct op_write_proc *op)
{
	size_t size = strlen(op->data);
	int fd = open_proc(x, op->path);
	ssize_t written;

	if (fd < 0)
		return fail(x, "open", op->path);
	written = write(fd, op->data, size);
	if (written != (ssize_t)size) {
		if (written >= 0)
			errno = EIO;
		(void)fail(x, "write", op->path);
		close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

int run_hostname(struct executor *x, struct op_hostname *op)
{
	return sethostname(op->name, strlen(op->name)) < 0 ? fail(x, "sethostname", op->name) : 0;
}

int run_domainname(struct executor *x, struct op_domainname *op)
{
	return setdomainname(op->name, strlen(op->name)) < 0 ? fail(x, "setdomainname", op->name)
							    : 0;
}
