/* Open the container's terminal in its own devpts, and send the master to the host. */
#include "executor.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "kernel.h"

#define DEVPTS_SUPER_MAGIC 0x1cd1
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/*
 * Open the pty master.  The image may contain any file at this path: open only the ptmx of devpts
 * (CVE-2025-52565), and check it before the open, because opening a device may have side effects.
 */
static int open_master(struct executor *x)
{
	static const char path[] = "/dev/pts/ptmx";
	int node = open_inside(x, path, O_PATH | O_NOFOLLOW), master;
	struct statfs filesystem;
	struct stat file;

	if (node < 0)
		return fail(x, "open", path);
	if (fstatfs(node, &filesystem) < 0 || fstat(node, &file) < 0)
		return fail(x, "stat", path);
	errno = ENODEV;
	if (filesystem.f_type != DEVPTS_SUPER_MAGIC || !S_ISCHR(file.st_mode) ||
	    file.st_rdev != makedev(5, 2))
		return fail(x, "verify", path);
	master = open_again(x, node, O_RDWR);
	if (master < 0)
		return fail(x, "open", path);
	close(node);
	return master;
}

static int open_slave(struct executor *x, int master)
{
	int unlock = 0, slave;

	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return fail(x, "ioctl", "TIOCSPTLCK");
	/* Use the descriptor: the name /dev/pts/N may refer to another terminal by now. */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return slave < 0 ? fail(x, "ioctl", "TIOCGPTPEER") : slave;
}

static int bind_console(struct executor *x, int slave)
{
	static const char path[] = "/dev/console";
	const char *name;
	int parent = open_parent(x, path, &name), target, tree, result;

	if (parent < 0)
		return fail(x, "open", path);
	/*
	 * Do not follow a link of the image (CVE-2026-88264), and use O_PATH: the file may be a
	 * device, or a FIFO without a writer.
	 */
	target = open_no_link(parent, name, 0);
	if (target < 0 && errno == ENOENT)
		target = openat(parent, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	close(parent);
	if (target < 0)
		return fail(x, "open", path);
	tree = copy_mounts(x, slave, false, path);
	if (tree < 0)
		return -1;
	result = attach_tree(x, tree, target, path);
	close(tree);
	close(target);
	return result;
}

int run_console(struct executor *x, struct op_console *op)
{
	struct winsize size = { .ws_row = (unsigned short)op->rows,
				.ws_col = (unsigned short)op->columns };
	int master = open_master(x), slave;

	if (master < 0)
		return -1;
	slave = open_slave(x, master);
	if (slave < 0)
		return -1;
	if ((op->rows || op->columns) && ioctl(master, TIOCSWINSZ, &size) < 0)
		return fail(x, "ioctl", "TIOCSWINSZ");
	if (fchown(slave, op->uid, (gid_t)-1) < 0)
		return fail(x, "chown", "terminal");
	if ((op->flags & CONSOLE_BIND) && bind_console(x, slave) < 0)
		return -1;
	if (send_short(x, x->sync_fd, MESSAGE_CONSOLE, 0, master) < 0)
		return fail(x, "sendmsg", "terminal");
	close(master);
	if ((op->flags & CONSOLE_CONTROL) && ioctl(slave, TIOCSCTTY, 0) < 0)
		return fail(x, "ioctl", "TIOCSCTTY");
	for (int fd = 0; fd < 3; fd++)
		if (dup2(slave, fd) < 0)
			return fail(x, "dup2", "terminal");
	close(slave);
	return 0;
}
