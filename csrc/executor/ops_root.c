/* Operations that change from the host's root filesystem to the container's. */
#include "executor.h"

#include <errno.h>
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
	/* Stack the old root onto the new one and unmount it through its descriptor. */
	if (sys_pivot_root(".", ".") < 0)
		return fail(x, "pivot_root", "");
	if (fchdir(old_root) < 0)
		return fail(x, "fchdir", "old root");
	close(old_root);
	/* The unmount must not propagate to the host. */
	if (sys_mount(NULL, ".", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return fail(x, "mount", "old root");
	if (sys_umount(".", MNT_DETACH) < 0)
		return fail(x, "umount", "old root");
	if (chdir("/") < 0)
		return fail(x, "chdir", "/");
	x->entered = true;
	return 0;
}

/* Make the working directory the root. */
static int enter_by_chroot(struct executor *x)
{
	if (chroot(".") < 0)
		return fail(x, "chroot", "root");
	/* A working directory that is not below the root would lead out of it by "..". */
	if (chdir("/") < 0)
		return fail(x, "chdir", "/");
	x->entered = true;
	return 0;
}

/* Unmount the host's proc or sysfs; in a user namespace, where mounts are locked, cover it. */
static int hide_kernel_mount(struct executor *x, const char *path)
{
	int fd, cover;

	if (sys_umount(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno == ENOENT)
		return 0;
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : fail(x, "open", path);
	cover = cover_directory(x, fd, path, "");
	close(fd);
	if (cover < 0)
		return -1;
	close(cover);
	return 0;
}

/* The old root stays below the new one: its procfs, if reached, would show the host's processes. */
int run_move_root(struct executor *x, struct op_move_root *op)
{
	for (uint32_t i = 0; i < op->uncovered.count; i++)
		if (hide_kernel_mount(x, op->uncovered.items[i]) < 0)
			return -1;
	if (fchdir(x->root_fd) < 0)
		return fail(x, "fchdir", "root");
	if (sys_mount(".", "/", NULL, MS_MOVE, NULL) < 0)
		return fail(x, "mount", "/");
	return enter_by_chroot(x);
}

/* In a joined mount namespace there is no old root to leave or unmount. */
int run_chroot(struct executor *x, struct op_chroot *op)
{
	(void)op;
	if (fchdir(x->root_fd) < 0)
		return fail(x, "fchdir", "root");
	return enter_by_chroot(x);
}

static void close_kept(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * Close every descriptor of the host's files before the program starts: through an inherited one,
 * its working directory or /proc/self/fd would lead to the host (CVE-2024-21626).
 */
int run_close_host(struct executor *x, struct op_close_host *op)
{
	(void)op;
	close_kept(&x->proc_fd);
	look_for_mount_ids_in(-1);
	close_kept(&x->null_fd);
	close_kept(&x->pid_fd);
	close_kept(&x->mask_fd);
	close_kept(&x->kernel_fd);
	close_kept(&x->root_fd);
	for (unsigned int i = 0; i < SLOTS; i++)
		close_kept(&x->slots[i]);
	return 0;
}
