/*
 * Operations for mounts.  A mount gets its attributes while it is detached, or where no other
 * process sees it, and is then moved onto a descriptor of its target.  Therefore no path is looked
 * up twice, and a read-only mount is never writable, not even for a moment.
 */
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kernel.h"

#define OPTION_SIZE 256u /* fsconfig(2) limits keys and values to this, with their NUL */

/*
 * A mount namespace begins here, or the container's root has been entered.  A tree that stays
 * shared with the host's must not be mounted on, and only the mount API can avoid that.
 */
int run_propagation(struct executor *x, struct op_propagation *op)
{
	uint32_t flags = op->flags;
	bool shared = !x->entered && (flags & MS_SHARED);

	if (shared) {
		look_for_mount_api(x);
		if (!x->has_mount_api)
			flags = MS_SLAVE | MS_REC;
	}
	x->shared_mounts = shared && x->has_mount_api;
	x->own_mounts = !x->shared_mounts;
	return sys_mount(NULL, "/", NULL, flags, NULL) < 0 ? fail(x, "mount", "/") : 0;
}

static int open_source(struct executor *x, const char *source)
{
	int fd = open(source, O_PATH | O_CLOEXEC);

	return fd < 0 ? fail(x, "open_tree", source) : fd;
}

static int copy_opened(struct executor *x, int fd, const char *source, bool recursive,
		       uint32_t id_map, bool id_map_recursive)
{
	int tree;

	if (fd < 0)
		return -1;
	tree = copy_mounts(x, fd, recursive, source);
	close(fd);
	if (tree < 0 || map_ids(x, tree, id_map, id_map_recursive, source) == 0)
		return tree;
	close(tree);
	return -1;
}

static int copy_tree(struct executor *x, const char *source, bool recursive, uint32_t id_map,
		     bool id_map_recursive)
{
	/* In a joined mount namespace, `source` would be another file, which cannot be mounted. */
	errno = ENOSYS;
	if (!x->has_mount_api && !x->own_mounts)
		return fail(x, "open_tree", source);
	return copy_opened(x, open_source(x, source), source, recursive, id_map, id_map_recursive);
}

/* Open a path below the shared root, where a container may have put symbolic links. */
static int open_real_source(struct executor *x, const char *source)
{
	int fd = open_without_links(x, source, O_PATH);

	return fd < 0 ? fail(x, "open_tree", source) : fd;
}

int run_open_tree(struct executor *x, struct op_open_tree *op)
{
	int *tree = slot_of(x, op->slot);

	if (!tree)
		return -1;
	x->has_mount_api = !is_missing_call(SYS_open_tree) && !is_missing_call(SYS_mount_setattr);
	/* Without the mount API, `bind` clones the source later, when it is too late to map ids. */
	if (!x->has_mount_api && op->id_map == NO_SLOT)
		return 0;
	*tree = copy_opened(x, op->follow ? open_source(x, op->source) : open_real_source(x, op->source),
			    op->source, op->recursive, op->id_map, op->id_map_recursive);
	return *tree < 0 ? -1 : 0;
}

static bool is_same_node(int one, int other)
{
	struct stat a, b;

	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/*
 * Make the mount that holds the root directory private: mounts in it must not propagate to the
 * host, and pivot_root(2) refuses a shared one.
 */
static int make_parent_private(struct executor *x, int root, const char *name)
{
	const uint64_t id = mount_id(root);
	int at = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), result;

	while (at >= 0) {
		int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (above >= 0 && (mount_id(above) != id || is_same_node(above, at))) {
			close(above);
			break;
		}
		close(at);
		at = above;
	}
	if (at < 0)
		return fail(x, "open", name);
	result = propagate(x, at, MS_PRIVATE, name);
	close(at);
	return result;
}

int run_root(struct executor *x, struct op_root *op)
{
	int source, result;

	look_for_mount_api(x);
	if (open_null(x) < 0)
		return -1;
	source = open(op->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source < 0)
		return fail(x, "open", op->source);
	result = x->shared_mounts ? make_parent_private(x, source, op->source) : 0;
	x->root_fd = result < 0 ? -1 : copy_mounts(x, source, true, op->source);
	result = x->root_fd < 0 ? -1 : attach_tree(x, x->root_fd, source, op->source);
	close(source);
	return result;
}

int run_shared_root(struct executor *x, struct op_shared_root *op)
{
	look_for_mount_api(x);
	if (open_null(x) < 0)
		return -1;
	x->root_fd = open(op->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return x->root_fd < 0 ? fail(x, "open", op->source) : 0;
}

/*
 * Mount the root on top of a second, lower mount.  Only the lower mount propagates to other mount
 * namespaces, because its parent is shared.  It is made private before anything is mounted in it,
 * so its copies there are empty, and disappear with it.
 */
static int stack_root(struct executor *x, int lower, int place, const char *name)
{
	int go = present_mount(x, lower);

	errno = ECANCELED;
	if (go <= 0)
		return go < 0 ? -1 : fail(x, "move_mount", name);
	if (attach_tree(x, lower, place, name) < 0 || propagate(x, lower, MS_PRIVATE, name) < 0)
		return -1;
	return attach_tree(x, x->root_fd, lower, name);
}

int run_recorded_root(struct executor *x, struct op_recorded_root *op)
{
	int source, lower, result = -1;

	/* Here the mount API is required; without privileges it fails with EPERM. */
	x->has_mount_api = true;
	if (open_null(x) < 0)
		return -1;
	source = open(op->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source < 0)
		return fail(x, "open", op->source);
	lower = copy_mounts(x, source, false, op->source);
	x->root_fd = lower < 0 ? -1 : copy_mounts(x, source, true, op->source);
	if (x->root_fd >= 0 && propagate(x, x->root_fd, MS_PRIVATE | MS_REC, op->source) == 0)
		result = stack_root(x, lower, source, op->source);
	if (lower >= 0)
		close(lower);
	close(source);
	return result;
}

/* The kernel explains a refused option line by line, on the filesystem context's descriptor. */
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
	/* Report this error here: the kernel's would be EINVAL, as for an unknown option. */
	if ((size_t)(equals - option) >= OPTION_SIZE || strlen(equals + 1) >= OPTION_SIZE) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(key, option, (size_t)(equals - option));
	key[equals - option] = '\0';
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, key, equals + 1, 0);
}

/* Return the mode to inherit, in octal; empty without that flag. */
static int inherited_mode(struct executor *x, struct op_mount *op, int target, char data[16])
{
	struct text mode = text_in(data, 16);
	struct stat directory;

	if (!(op->flags & MOUNT_INHERIT_MODE))
		return 0;
	if (fstat(target, &directory) < 0)
		return fail(x, "stat", op->target);
	text_add_number(&mode, directory.st_mode & 07777, 8);
	return 0;
}

static int set_options(struct executor *x, int fs, const struct plan_strs *options)
{
	for (uint32_t i = 0; i < options->count; i++)
		if (set_option(fs, options->items[i]) < 0)
			return fail_filesystem(x, fs, "fsconfig", options->items[i]);
	return 0;
}

/* Create a new filesystem, detached. */
int make_filesystem(struct executor *x, struct op_mount *op, int target)
{
	char mode[16];
	int fs, tree;

	if (inherited_mode(x, op, target, mode) < 0)
		return -1;
	if (x->pid_fd >= 0 && strcmp(op->fstype, "proc") == 0) {
		fs = fsopen_joined_proc(x); /* mount(2) would show the host's processes */
		if (fs < 0)
			return -1;
	} else if (!x->has_mount_api || (x->own_mounts && !fit_fsconfig(&op->options))) {
		return make_filesystem_by_mount(x, op, mode);
	} else {
		fs = sys_fsopen(op->fstype, FSOPEN_CLOEXEC);
		if (fs < 0)
			return fail(x, "fsopen", op->fstype);
	}
	if (op->source[0] &&
	    sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", op->source, 0) < 0)
		return fail_filesystem(x, fs, "fsconfig", "source");
	if (mode[0] && sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", mode, 0) < 0)
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

/*
 * Bind-mount the host's proc or sysfs.  Only the owner of the pid or network namespace may mount
 * them; a container that shares that namespace with the host may see the host's mount.
 */
static int bind_the_hosts(struct executor *x, struct op_mount *op)
{
	const char *path = strcmp(op->fstype, "proc") == 0 ? "/proc" : "/sys";
	int tree = copy_tree(x, path, true, NO_SLOT, false);

	if (tree < 0)
		return -1;
	/* Recursively: below /sys there are cgroups that the user may write to. */
	if (change_mount(x, tree, op->attributes & ~(uint64_t)MOUNT_ATTR__ATIME, 0, true,
			 op->target) == 0 &&
	    propagate(x, tree, MS_SLAVE | MS_REC, op->target) == 0)
		return tree;
	close(tree);
	return -1;
}

/* Label the root directory of a filesystem that does not support context=. */
static int label_root(struct executor *x, int tree, const char *label)
{
	int fd, result;

	if (!label[0])
		return 0;
	/* A descriptor with O_PATH gives no access to extended attributes. */
	fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(x, "open", ".");
	result = fsetxattr(fd, "security.selinux", label, strlen(label), 0);
	if (result < 0)
		(void)fail(x, "fsetxattr", label);
	close(fd);
	return result;
}

/*
 * Attach the mount, then set its propagation: below a shared mount, the kernel makes an attached
 * mount shared, and refuses an unbindable one.
 */
static int attach_and_propagate(struct executor *x, int tree, int target, uint32_t propagation,
				uint32_t flags, const char *name)
{
	if ((flags & MOUNT_PRESENT) && present_new_mount(x, tree, target, name) < 0)
		return -1;
	if (attach_tree(x, tree, target, name) < 0)
		return -1;
	return propagate(x, tree, propagation, name);
}

int run_mount(struct executor *x, struct op_mount *op)
{
	int target, tree, result = -1;

	if ((op->flags & MOUNT_INHERIT_MODE) && !is_there(x, op->target))
		op->flags &= ~(uint32_t)MOUNT_INHERIT_MODE; /* keep tmpfs's default, 1777 */
	target = open_mount_point(x, op->target, op->flags);
	if (target < 0)
		return fail(x, "open", op->target);
	tree = make_filesystem(x, op, target);
	if (tree < 0 && x->failure.error == EPERM && (op->flags & MOUNT_OR_BIND))
		tree = bind_the_hosts(x, op);
	if (tree >= 0 && map_ids(x, tree, op->id_map, false, op->target) == 0 &&
	    label_root(x, tree, op->label) == 0 &&
	    (!(op->flags & MOUNT_COPY_UP) || copy_up(x, target, tree, op->target) == 0))
		result = attach_and_propagate(x, tree, target, op->propagation, op->flags,
					      op->target);
	if (result == 0)
		note_mount(x, tree, op->target);
	if (tree >= 0)
		close(tree);
	close(target);
	return result;
}

/* Return the tree to bind-mount: one that was opened before, or a new clone of the source. */
static int bind_tree(struct executor *x, struct op_bind *op)
{
	const int *kept = op->slot == NO_SLOT ? NULL : slot_of(x, op->slot);
	int tree;

	if (op->slot == NO_SLOT || (kept && *kept < 0 && !x->has_mount_api))
		return copy_tree(x, op->source, op->recursive, op->id_map, op->id_map_recursive);
	tree = open_slot(x, op->slot);
	if (tree >= 0)
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
	if (change_mount(x, tree, op->set_attributes, op->clear_attributes, false, op->target) < 0)
		return -1;
	/* Set the recursive attributes last: a recursive `rro` overrides `rw`. */
	return change_mount(x, tree, op->set_recursive, op->clear_recursive, op->recursive,
			    op->target);
}

int run_bind(struct executor *x, struct op_bind *op)
{
	int tree = bind_tree(x, op), target, result = -1;

	if (tree >= 0) {
		target = bind_target(x, tree, op->target, op->flags);
		if (target < 0)
			result = fail(x, "open", op->target);
		else if (bind_attributes(x, tree, op) == 0)
			result = attach_and_propagate(x, tree, target, op->propagation, op->flags,
					      op->target);
		if (result == 0)
			note_mount(x, tree, op->target);
		if (target >= 0)
			close(target);
		close(tree);
	}
	return result;
}

int run_set_attributes(struct executor *x, struct op_set_attributes *op)
{
	int target = open_mount(x, op->target), result;

	if (target < 0)
		return -1;
	result = change_mount(x, target, op->set_attributes, op->clear_attributes, op->recursive,
			      op->target);
	if (result == 0)
		result = propagate(x, target, op->propagation, op->target);
	close(target);
	return result;
}

int run_reconfigure(struct executor *x, struct op_reconfigure *op)
{
	int target = open_mount(x, op->target), fs, result;

	if (target < 0)
		return -1;
	if (!x->has_mount_api || (x->own_mounts && !fit_fsconfig(&op->options))) {
		result = reconfigure_by_mount(x, op, target);
		close(target);
		return result;
	}
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
