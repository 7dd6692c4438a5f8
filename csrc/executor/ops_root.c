/* Leaving the host's filesystem for the container's. */
#include "executor.h"

#include <unistd.h>

#include "kernel.h"

int run_pivot_root(struct executor *x, struct op_pivot_root *op)
{
	int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)op;
	if (old_root < 0)
		return fail(x, "open", "/");
	if (fchdir(x->root_fd) < 0)
		return fail(x, "fchdir", "root");
	/* The old root is stacked onto the new one and unmounted through its descriptor. */
	if (sys_pivot_root(".", ".") < 0)
		return fail(x, "pivot_root", "");
	if (fchdir(old_root) < 0)
		return fail(x, "fchdir", "old root");
	close(old_root);
	/* It must not carry the unmount to the host. */
	if (sys_mount(NULL, ".", MS_SLAVE | MS_REC) < 0)
		return fail(x, "mount", "old root");
	if (sys_umount(".", MNT_DETACH) < 0)
		return fail(x, "umount", "old root");
	if (chdir("/") < 0)
		return fail(x, "chdir", "/");
	x->entered = true;
	return 0;
}

int run_move_root(struct executor *x, struct op_move_root *op)
{
	(void)op;
	if (fchdir(x->root_fd) < 0)
		return fail(x, "fchdir", "root");
	if (sys_move_mount(x->root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return fail(x, "move_mount", "/");
	if (chroot(".") < 0)
		return fail(x, "chroot", "root");
	if (chdir("/") < 0)
		return fail(x, "chdir", "/");
	x->entered = true;
	return 0;
}

static void close_kept(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int run_close_host(struct executor *x, struct op_close_host *op)
{
	(void)op;
	close_kept(&x->proc_fd);
	close_kept(&x->null_fd);
	close_kept(&x->root_fd);
	for (int i = 0; i < SLOTS; i++)
		close_kept(&x->slots[i]);
	return 0;
}
