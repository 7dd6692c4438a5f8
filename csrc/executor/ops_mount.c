/*
 * Mounts.  A mount is made and given its attributes while it is attached nowhere, then
 * moved onto a descriptor of its target: no path is looked up twice, nothing is writable
 * for a moment, and nothing is changed later.
 */
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernel.h"

#define MS_REC_BIT 16384u
#define OPTION_SIZE 256u /* fsconfig(2) takes no longer keys or values, with their NUL */

int attach_tree(struct executor *x, int tree, int target, const char *name)
{
	if (sys_move_mount(tree, "", target, "",
			   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return fail(x, "move_mount", name);
	return 0;
}

static int change(struct executor *x, int tree, uint64_t set, uint64_t clear, uint32_t propagation,
		  bool recursive, const char *name)
{
	struct mount_attr attributes = { .attr_set = set, .attr_clr = clear, .propagation = propagation };

	if (!set && !clear && !propagation)
		return 0;
	/* The kernel wants the access time's old value cleared whenever one is set. */
	if (set & MOUNT_ATTR__ATIME)
		attributes.attr_clr |= MOUNT_ATTR__ATIME;
	if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
			      &attributes) < 0)
		return fail(x, "mount_setattr", name);
	return 0;
}

static int propagate(struct executor *x, int tree, uint32_t flags, const char *name)
{
	return change(x, tree, 0, 0, flags & ~MS_REC_BIT, flags & MS_REC_BIT, name);
}

int run_propagation(struct executor *x, struct op_propagation *op)
{
	return sys_mount(NULL, "/", op->flags) < 0 ? fail(x, "mount", "/") : 0;
}

static int copy_tree(const char *source, bool recursive)
{
	return sys_open_tree(AT_FDCWD, source,
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0));
}

int run_open_tree(struct executor *x, struct op_open_tree *op)
{
	if (op->slot >= SLOTS) {
		errno = EBADSLT;
		return fail(x, "read", "slot");
	}
	x->slots[op->slot] = copy_tree(op->source, op->recursive);
	return x->slots[op->slot] < 0 ? fail(x, "open_tree", op->source) : 0;
}

/* For the masks.  Not earlier: only mounts of the mount namespace one is in can be copied. */
static int open_null(struct executor *x)
{
	struct stat node;

	x->null_fd = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (x->null_fd < 0 || fstat(x->null_fd, &node) < 0)
		return fail(x, "open", "/dev/null");
	errno = ENODEV;
	if (!S_ISCHR(node.st_mode) || node.st_rdev != makedev(1, 3))
		return fail(x, "verify", "/dev/null");
	return 0;
}

int run_root(struct executor *x, struct op_root *op)
{
	int source, result;

	if (open_null(x) < 0)
		return -1;
	source = open(op->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source < 0)
		return fail(x, "open", op->source);
	x->root_fd = sys_open_tree(source, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE |
						       OPEN_TREE_CLOEXEC);
	result = x->root_fd < 0 ? fail(x, "open_tree", op->source)
				: attach_tree(x, x->root_fd, source, op->source);
	close(source);
	return result;
}

/* The kernel explains a refused option on the filesystem context's descriptor, line by line. */
static int fail_filesystem(struct executor *x, int fs, const char *call, const char *argument)
{
	char words[1024];
	size_t used = 0;
	int error = errno;

	while (used < sizeof(words) - 1) {
		ssize_t size = read(fs, words + used, sizeof(words) - 1 - used);

		if (size <= 0)
			break;
		used += (size_t)size;
	}
	words[used] = '\0';
	errno = error;
	(void)fail_detail(x, call, argument, words);
	close(fs);
	return -1;
}

static int set_option(int fs, const char *option)
{
	const char *equals = strchr(option, '=');
	char key[OPTION_SIZE];

	if (!equals)
		return sys_fsconfig(fs, FSCONFIG_SET_FLAG, option, NULL, 0);
	/* The kernel would call it just as invalid as one that it does not know. */
	if ((size_t)(equals - option) >= OPTION_SIZE || strlen(equals + 1) >= OPTION_SIZE) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(key, option, (size_t)(equals - option));
	key[equals - option] = '\0';
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, equals + 1, 0);
}

static int inherit_mode(int fs, int target)
{
	struct stat directory;
	char data[16];
	struct text mode = text_in(data, sizeof(data));

	if (fstat(target, &directory) < 0)
		return -1;
	text_add_number(&mode, directory.st_mode & 07777, 8);
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", data, 0);
}

static int set_options(struct executor *x, int fs, const struct plan_strs *options)
{
	for (uint32_t i = 0; i < options->count; i++)
		if (set_option(fs, options->items[i]) < 0)
			return fail_filesystem(x, fs, "fsconfig", options->items[i]);
	return 0;
}

/* A new filesystem, mounted nowhere. */
static int make_filesystem(struct executor *x, struct op_mount *op, int target)
{
	int fs = sys_fsopen(op->fstype, FSOPEN_CLOEXEC), tree;

	if (fs < 0)
		return fail(x, "fsopen", op->fstype);
	if (op->source[0] &&
	    sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", op->source, 0) < 0)
		return fail_filesystem(x, fs, "fsconfig", "source");
	if ((op->flags & MOUNT_INHERIT_MODE) && inherit_mode(fs, target) < 0)
		return fail_filesystem(x, fs, "fsconfig", "mode");
	if (set_options(x, fs, &op->options) < 0)
		return -1;
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fail_filesystem(x, fs, "fsconfig", "create");
	tree = sys_fsmount(fs, FSMOUNT_CLOEXEC, (unsigned int)op->attributes);
	if (tree < 0)
		return fail_filesystem(x, fs, "fsmount", op->fstype);
	close(fs);
	return tree;
}

static int open_mount_point(struct executor *x, const char *path, uint32_t flags)
{
	return flags & MOUNT_REAL_DIRECTORY ? open_real_directory(x, path)
					    : open_directory(x, path, 0755);
}

int run_mount(struct executor *x, struct op_mount *op)
{
	int target = open_mount_point(x, op->target, op->flags), tree, result = -1;

	if (target < 0)
		return fail(x, "open", op->target);
	tree = make_filesystem(x, op, target);
	if (tree >= 0 && propagate(x, tree, op->propagation, op->target) == 0 &&
	    (!(op->flags & MOUNT_COPY_UP) || copy_up(x, target, tree, op->target) == 0))
		result = attach_tree(x, tree, target, op->target);
	if (tree >= 0)
		close(tree);
	close(target);
	return result;
}

/* The tree to bind: one that was opened before, or a copy of the source now. */
static int bind_tree(struct executor *x, struct op_bind *op)
{
	int tree;

	if (op->slot == NO_SLOT) {
		tree = copy_tree(op->source, op->recursive);
		return tree < 0 ? fail(x, "open_tree", op->source) : tree;
	}
	if (op->slot >= SLOTS || x->slots[op->slot] < 0) {
		errno = EBADSLT;
		return fail(x, "read", "slot");
	}
	tree = x->slots[op->slot];
	x->slots[op->slot] = -1;
	return tree;
}

static int bind_target(struct executor *x, int tree, const char *path, uint32_t flags)
{
	struct stat source;

	if (fstat(tree, &source) < 0)
		return -1;
	return S_ISDIR(source.st_mode) ? open_mount_point(x, path, flags) : open_file(x, path);
}

static int bind_attributes(struct executor *x, int tree, struct op_bind *op)
{
	if (change(x, tree, op->set_recursive, op->clear_recursive, 0, true, op->target) < 0 ||
	    change(x, tree, op->set_attributes, op->clear_attributes, 0, false, op->target) < 0)
		return -1;
	return propagate(x, tree, op->propagation, op->target);
}

int run_bind(struct executor *x, struct op_bind *op)
{
	int tree = bind_tree(x, op), target, result = -1;

	if (tree >= 0) {
		target = bind_target(x, tree, op->target, op->flags);
		if (target < 0)
			result = fail(x, "open", op->target);
		else if (bind_attributes(x, tree, op) == 0)
			result = attach_tree(x, tree, target, op->target);
		if (target >= 0)
			close(target);
		close(tree);
	}
	return result;
}

int run_set_attributes(struct executor *x, struct op_set_attributes *op)
{
	int target = open_inside(x, op->target, O_PATH), result;

	if (target < 0)
		return fail(x, "open", op->target);
	result = change(x, target, op->set_attributes, op->clear_attributes, 0, op->recursive,
			op->target);
	if (result == 0)
		result = propagate(x, target, op->propagation, op->target);
	close(target);
	return result;
}

int run_reconfigure(struct executor *x, struct op_reconfigure *op)
{
	int target = open_inside(x, op->target, O_PATH), fs;

	if (target < 0)
		return fail(x, "open", op->target);
	fs = sys_fspick(target, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	close(target);
	if (fs < 0)
		return fail(x, "fspick", op->target);
	if (set_options(x, fs, &op->options) < 0)
		return -1;
	if (sys_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return fail_filesystem(x, fs, "fsconfig", "reconfigure");
	close(fs);
	return 0;
}

static int cover_file(struct executor *x, int target, const char *name)
{
	int tree = sys_open_tree(x->null_fd, "",
				 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), result;

	if (tree < 0)
		return fail(x, "open_tree", "/dev/null");
	/* Not nodev: the device behind a masked file must still open, as an empty file. */
	result = change(x, tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0, 0, false, name);
	if (result == 0)
		result = attach_tree(x, tree, target, name);
	close(tree);
	return result;
}

static int cover_directory(struct executor *x, int target, const char *name)
{
	char *options[] = { "size=4k", "mode=755", NULL };
	struct op_mount empty = {
		.fstype = "tmpfs",
		.source = "tmpfs",
		.target = name,
		.options = { .items = options, .count = 2 },
		.attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			      MOUNT_ATTR_NOEXEC,
	};
	int tree = make_filesystem(x, &empty, target), result;

	if (tree < 0)
		return -1;
	result = attach_tree(x, tree, target, name);
	close(tree);
	return result;
}

static bool is_missing(int error)
{
	return error == ENOENT || error == ENOTDIR;
}

int run_mask(struct executor *x, struct op_mask *op)
{
	int target = open_inside(x, op->target, O_PATH), result;
	struct stat node;

	if (target < 0)
		return is_missing(errno) ? 0 : fail(x, "open", op->target);
	if (fstat(target, &node) < 0)
		result = fail(x, "stat", op->target);
	else if (S_ISDIR(node.st_mode))
		result = cover_directory(x, target, op->target);
	else
		result = cover_file(x, target, op->target);
	close(target);
	return result;
}

int run_readonly(struct executor *x, struct op_readonly *op)
{
	int target = open_inside(x, op->target, O_PATH), tree, result = -1;

	if (target < 0)
		return is_missing(errno) ? 0 : fail(x, "open", op->target);
	tree = sys_open_tree(target, "",
			     AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		(void)fail(x, "open_tree", op->target);
	else if (change(x, tree, MOUNT_ATTR_RDONLY, 0, 0, true, op->target) == 0)
		result = attach_tree(x, tree, target, op->target);
	if (tree >= 0)
		close(tree);
	close(target);
	return result;
}
