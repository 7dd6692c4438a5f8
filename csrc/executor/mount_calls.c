/*
 * The steps of making a mount: with the mount API, or with mount(2) if the kernel is older than 5.12,
 * an outer seccomp filter forbids the calls, or an option is too long for fsconfig(2).
 *
 * mount(2) knows neither detached mounts nor descriptors.  Therefore a mount is made and finished
 * at a path of the host, in a mount namespace that has no other process yet, and then moved.  An
 * open file is named by its descriptor's entry in the host's /proc.
 */
#include "executor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"

#define DIRECTORY_STAGE "/dev"
#define FILE_STAGE "/dev/null"
#define DATA_SIZE 4096u	  /* mount(2) takes one page of options, with its NUL */
#define OPTION_SIZE 256u  /* fsconfig(2) limits keys and values to this, with their NUL */
#define FD_PATH_SIZE 32u

#define ST_NOSYMFOLLOW_FLAG 0x2000 /* f_flags of statfs(2) */

/*
 * Return true if the system call is missing or denied.  Probes with invalid arguments: each of
 * these calls checks its flags, or its descriptor, first.
 */
bool is_missing_call(long number)
{
	int before = errno;
	bool missing = syscall(number, -1L, -1L, -1L, -1L, -1L) < 0 &&
		       (errno == ENOSYS || errno == EPERM);

	errno = before; /* the caller may still report an earlier error */
	return missing;
}

/*
 * Use the mount API only if all its calls exist: without mount_setattr(2), a detached mount cannot
 * be finished.
 */
void look_for_mount_api(struct executor *x)
{
	x->has_mount_api = !is_missing_call(SYS_open_tree) && !is_missing_call(SYS_move_mount) &&
			   !is_missing_call(SYS_fsopen) && !is_missing_call(SYS_fsconfig) &&
			   !is_missing_call(SYS_fsmount) && !is_missing_call(SYS_mount_setattr);
}

static const char *path_of(int fd, char data[FD_PATH_SIZE])
{
	struct text path = text_in(data, FD_PATH_SIZE);

	text_add_fd(&path, fd);
	return data;
}

/* Return a descriptor of a mount made at the host's path `place`. */
static int stage(struct executor *x, const char *source, const char *place, const char *fstype,
		 unsigned long flags, const char *data)
{
	/* In a joined mount namespace, other processes may use this path. */
	errno = ENOSYS;
	if (!x->own_mounts || sys_mount(source, place, fstype, flags, data) < 0)
		return -1;
	return open(place, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static int stage_copy(struct executor *x, int source, bool recursive)
{
	char path[FD_PATH_SIZE];
	struct stat node;

	if (fstat(source, &node) < 0)
		return -1;
	return stage(x, path_of(source, path), S_ISDIR(node.st_mode) ? DIRECTORY_STAGE : FILE_STAGE,
		     NULL, MS_BIND | (recursive ? MS_REC : 0), NULL);
}

int copy_mounts(struct executor *x, int source, bool recursive, const char *name)
{
	int tree = x->has_mount_api
			   ? sys_open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE |
							       OPEN_TREE_CLOEXEC |
							       (recursive ? AT_RECURSIVE : 0))
			   : stage_copy(x, source, recursive);

	return tree < 0 ? fail(x, "open_tree", name) : tree;
}

int attach_tree(struct executor *x, int tree, int target, const char *name)
{
	char from[FD_PATH_SIZE], to[FD_PATH_SIZE];
	int result = x->has_mount_api
			     ? sys_move_mount(tree, "", target, "",
					      MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
			     : sys_mount(path_of(tree, from), path_of(target, to), NULL, MS_MOVE,
					 NULL);

	return result < 0 ? fail(x, "move_mount", name) : 0;
}

static uint64_t attributes_of(const struct statfs *filesystem)
{
	unsigned long flags = (unsigned long)filesystem->f_flags;
	uint64_t attributes = flags & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);

	if (flags & ST_NODIRATIME)
		attributes |= MOUNT_ATTR_NODIRATIME;
	if (flags & ST_NOSYMFOLLOW_FLAG)
		attributes |= MOUNT_ATTR_NOSYMFOLLOW;
	if (flags & ST_NOATIME)
		return attributes | MOUNT_ATTR_NOATIME;
	return flags & ST_RELATIME ? attributes : attributes | MOUNT_ATTR_STRICTATIME;
}

static unsigned long mount_flags(uint64_t attributes)
{
	unsigned long flags = attributes & (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);

	if (attributes & MOUNT_ATTR_NODIRATIME)
		flags |= MS_NODIRATIME;
	if (attributes & MOUNT_ATTR_NOSYMFOLLOW)
		flags |= MS_NOSYMFOLLOW;
	if (attributes & MOUNT_ATTR_NOATIME)
		return flags | MS_NOATIME;
	return flags | (attributes & MOUNT_ATTR_STRICTATIME ? MS_STRICTATIME : MS_RELATIME);
}

/*
 * Change attributes with mount(2), which replaces all of them: pass also those that must stay,
 * including locked ones.
 */
static int remount(int tree, uint64_t set, uint64_t clear)
{
	struct statfs filesystem;
	char path[FD_PATH_SIZE];
	uint64_t attributes;

	if (fstatfs(tree, &filesystem) < 0)
		return -1;
	attributes = (attributes_of(&filesystem) & ~clear) | set;
	return sys_mount(NULL, path_of(tree, path), NULL,
			 MS_REMOUNT | MS_BIND | mount_flags(attributes), NULL);
}

static int set_attributes(struct executor *x, int tree, uint64_t set, uint64_t clear,
			  bool recursive)
{
	struct mount_attr attributes = { .attr_set = set, .attr_clr = clear };

	if (!set && !clear)
		return 0;
	if (x->has_mount_api)
		return sys_mount_setattr(tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
					 &attributes);
	errno = ENOSYS;
	return recursive ? -1 : remount(tree, set, clear);
}

int change_mount(struct executor *x, int tree, uint64_t set, uint64_t clear, bool recursive,
		 const char *name)
{
	const uint64_t access_time = MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME;

	/* The kernel requires the old access time mode to be cleared whenever one is set. */
	if (set & MOUNT_ATTR__ATIME)
		clear |= MOUNT_ATTR__ATIME;
	if (set_attributes(x, tree, set, clear, recursive) == 0)
		return 0;
	/* A user namespace may not change the access-time mode of a host's mount. */
	if (errno == EPERM && ((set | clear) & access_time) &&
	    set_attributes(x, tree, set & ~access_time, clear & ~access_time, recursive) == 0)
		return 0;
	return fail(x, "mount_setattr", name);
}

int propagate(struct executor *x, int tree, uint32_t flags, const char *name)
{
	struct mount_attr attributes = { .propagation = flags & ~(uint32_t)MS_REC };
	char path[FD_PATH_SIZE];
	int result;

	if (!flags)
		return 0;
	if (x->has_mount_api)
		result = sys_mount_setattr(tree, "",
					   AT_EMPTY_PATH | (flags & MS_REC ? AT_RECURSIVE : 0),
					   &attributes);
	else
		result = sys_mount(NULL, path_of(tree, path), NULL, flags, NULL);
	return result < 0 ? fail(x, "mount_setattr", name) : 0;
}

bool fit_fsconfig(const struct plan_strs *options)
{
	for (uint32_t i = 0; i < options->count; i++) {
		const char *option = options->items[i];
		size_t key = strcspn(option, "=");

		if (key >= OPTION_SIZE || strlen(option + key) > OPTION_SIZE)
			return false;
	}
	return true;
}

/*
 * Return true for an option that mount(2) takes as a flag: a filesystem without fs_context does not
 * know it as an option.
 */
static bool is_superblock_flag(const char *option, unsigned long *flags)
{
	static const struct {
		char word[12];
		unsigned long flag;
	} words[] = {
		{ "ro", MS_RDONLY },	 { "sync", MS_SYNCHRONOUS }, { "async", 0 },
		{ "dirsync", MS_DIRSYNC }, { "lazytime", MS_LAZYTIME }, { "nolazytime", 0 },
		{ "mand", MS_MANDLOCK }, { "nomand", 0 },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strcmp(words[i].word, option) == 0) {
			*flags |= words[i].flag;
			return true;
		}
	}
	return false;
}

static void add_option(struct text *data, const char *option)
{
	size_t key = strcspn(option, "=");
	/* The kernel splits options at every comma that is not quoted or escaped. */
	bool quote = option[key] && strchr(option, ',') && !option[strcspn(option, "\"\\")];

	if (data->used)
		text_add(data, ",");
	text_add_part(data, option, quote ? key + 1 : strlen(option));
	if (quote) {
		text_add(data, "\"");
		text_add(data, option + key + 1);
		text_add(data, "\"");
	}
}

/* Join the options for mount(2); -1 if they are too long. */
static int join_options(struct text *data, const struct plan_strs *options, unsigned long *flags)
{
	for (uint32_t i = 0; i < options->count; i++)
		if (!is_superblock_flag(options->items[i], flags))
			add_option(data, options->items[i]);
	errno = ENAMETOOLONG;
	return data->whole ? 0 : -1;
}

int make_filesystem_by_mount(struct executor *x, struct op_mount *op, const char *mode)
{
	/* Set read-only later, on the mount: here it would apply to the whole filesystem. */
	unsigned long flags = mount_flags(op->attributes & ~(uint64_t)MOUNT_ATTR_RDONLY);
	char data[DATA_SIZE];
	struct text words = text_in(data, sizeof(data));
	int tree;

	if (mode[0]) {
		text_add(&words, "mode=");
		text_add(&words, mode);
	}
	if (join_options(&words, &op->options, &flags) < 0)
		return fail(x, "mount", "options");
	tree = stage(x, op->source, DIRECTORY_STAGE, op->fstype, flags, data);
	if (tree < 0)
		return fail(x, "mount", op->fstype);
	return change_mount(x, tree, op->attributes & MOUNT_ATTR_RDONLY, 0, false, op->target) < 0
		       ? -1
		       : tree;
}

int reconfigure_by_mount(struct executor *x, struct op_reconfigure *op, int target)
{
	char data[DATA_SIZE], path[FD_PATH_SIZE];
	struct text words = text_in(data, sizeof(data));
	struct statfs filesystem;
	unsigned long flags;

	if (fstatfs(target, &filesystem) < 0)
		return fail(x, "statfs", op->target);
	flags = MS_REMOUNT | mount_flags(attributes_of(&filesystem));
	if (join_options(&words, &op->options, &flags) < 0)
		return fail(x, "mount", "options");
	if (sys_mount(NULL, path_of(target, path), NULL, flags, data) < 0)
		return fail(x, "mount", op->target);
	return 0;
}
