/*
 * The null device: it masks files, and is often a standard stream.
 *
 * The host's node must not get into the container on a writable mount.  A process there with
 * CAP_FOWNER or CAP_CHOWN could change its mode and owner for the whole host, by a path or by
 * fchmod(2) on a descriptor; any user could change its times.  On a read-only mount a device still
 * opens for writing, and the kernel refuses the rest with EROFS.
 */
#include "executor.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernel.h"

static bool is_null(int fd)
{
	struct stat node;

	return fstat(fd, &node) == 0 && S_ISCHR(node.st_mode) && node.st_rdev == makedev(1, 3);
}

/* Call this in the new mount namespace: only mounts of one's own namespace can be cloned. */
int open_null(struct executor *x)
{
	x->null_fd = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (x->null_fd < 0)
		return fail(x, "open", "/dev/null");
	errno = ENODEV;
	return is_null(x->null_fd) ? 0 : fail(x, "verify", "/dev/null");
}

/* Clone the host's node as a detached mount; not nodev, because it must open. */
int copy_null(struct executor *x, const char *name)
{
	int tree = copy_mounts(x, x->null_fd, false, "/dev/null");

	if (tree < 0 || change_mount(x, tree,
				     MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0,
				     false, name) == 0)
		return tree;
	close(tree);
	return -1;
}

/*
 * Reopen `node`, in the stream's own access mode, for each standard stream that is the null device.
 */
static int replace_streams(struct executor *x, int node)
{
	for (int stream = 0; stream < 3; stream++) {
		int flags, fd;

		if (!is_null(stream))
			continue;
		flags = fcntl(stream, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH);
		fd = open_again(x, node, flags);
		if (fd < 0)
			return fail(x, "open", "standard streams");
		if (dup2(fd, stream) < 0)
			return fail(x, "dup2", "standard streams");
		close(fd);
	}
	return 0;
}

/*
 * Replace the streams by the container's own node, so that no mount from outside stays in use.  The
 * container may have put a link, a FIFO or another device there (CVE-2026-88265), and may replace
 * it at any moment: check type and number of the file that was found, and open only that file.
 */
static int use_own_null(struct executor *x, int root)
{
	int node = open_below(root, "dev/null", O_PATH,
			      RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	int result;

	if (node < 0)
		return -1;
	result = is_null(node) ? replace_streams(x, node) : -1;
	close(node);
	return result;
}

/* Open the host's node on a read-only mount, for a container without a usable node of its own. */
static int use_copied_null(struct executor *x)
{
	int tree, result;

	if (x->null_fd < 0 && open_null(x) < 0)
		return -1;
	tree = copy_null(x, "standard streams");
	if (tree < 0)
		return -1;
	result = replace_streams(x, tree);
	close(tree);
	return result;
}

int run_null_streams(struct executor *x, struct op_null_streams *op)
{
	int root = x->root_fd, result;

	if (!is_null(0) && !is_null(1) && !is_null(2))
		return 0;
	if (op->root_of) /* it may be that of another process: the node found in it is checked */
		root = open_root_of(x, op->root_of);
	result = root < 0 ? -1 : use_own_null(x, root);
	if (op->root_of && root >= 0)
		close(root);
	if (result == 0)
		return 0;
	if (op->root_of)
		look_for_mount_api(x);
	result = use_copied_null(x);
	/*
	 * A caller who may not clone a mount cannot change the host's node either, so the streams
	 * can stay.
	 */
	return result < 0 && x->failure.error == EPERM && geteuid() != 0 ? 0 : result;
}
