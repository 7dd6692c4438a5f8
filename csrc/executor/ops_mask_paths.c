/* Mask paths and make paths read-only, with mounts on top of them. */
#include "executor.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#define CONTEXT_SIZE 1024u

/* Use the host's null device, opened beforehand: the image chooses what its /dev/null is. */
static int cover_file(struct executor *x, int target, const char *name)
{
	int tree = copy_null(x, name), result;

	if (tree < 0)
		return -1;
	result = attach_tree(x, tree, target, name);
	close(tree);
	return result;
}

int cover_directory(struct executor *x, int target, const char *name, const char *context)
{
	char option[CONTEXT_SIZE];
	struct text word = text_in(option, sizeof(option));
	char *options[] = { "size=4k", "mode=755", option };
	struct op_mount empty = {
		.fstype = "tmpfs",
		.source = "tmpfs",
		.target = name,
		.options = { .items = options, .count = context[0] ? 3 : 2 },
		.attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			      MOUNT_ATTR_NOEXEC,
		.id_map = NO_SLOT,
	};
	int tree;

	text_add(&word, "context=");
	text_add(&word, context);
	errno = ENAMETOOLONG;
	if (!word.whole)
		return fail(x, "mount", "context");
	tree = make_filesystem(x, &empty, target);
	if (tree < 0 || attach_tree(x, tree, target, name) == 0)
		return tree;
	close(tree);
	return -1;
}

/* Mask a directory with an empty filesystem, which all masked directories share. */
static int mask_directory(struct executor *x, int target, const struct op_mask *op)
{
	int tree, result;

	if (x->mask_fd < 0 || !x->has_mount_api) {
		tree = cover_directory(x, target, op->target, op->context);
		if (x->mask_fd >= 0)
			close(x->mask_fd);
		x->mask_fd = tree;
		return tree < 0 ? -1 : 0;
	}
	tree = copy_mounts(x, x->mask_fd, false, op->target);
	if (tree < 0)
		return -1;
	result = attach_tree(x, tree, target, op->target);
	close(tree);
	return result;
}

/* Engines mask and protect the same paths on every kernel, including files that this one lacks. */
static bool is_missing(int error)
{
	return error == ENOENT || error == ENOTDIR;
}

int run_mask(struct executor *x, struct op_mask *op)
{
	int target = open_restricted(x, op->target), result;
	struct stat node;

	if (target < 0)
		return is_missing(errno) ? 0 : fail(x, "open", op->target);
	if (fstat(target, &node) < 0)
		result = fail(x, "stat", op->target);
	else if (S_ISDIR(node.st_mode))
		result = mask_directory(x, target, op);
	else
		result = cover_file(x, target, op->target);
	close(target);
	return result;
}

int run_readonly(struct executor *x, struct op_readonly *op)
{
	int target = open_restricted(x, op->target), tree, result = -1;

	if (target < 0)
		return is_missing(errno) ? 0 : fail(x, "open", op->target);
	tree = copy_mounts(x, target, true, op->target);
	/* Before Linux 5.12 only the topmost mount of a tree can be changed. */
	if (tree >= 0 && change_mount(x, tree, MOUNT_ATTR_RDONLY, 0, x->has_mount_api,
				      op->target) == 0)
		result = attach_tree(x, tree, target, op->target);
	if (tree >= 0)
		close(tree);
	close(target);
	return result;
}
