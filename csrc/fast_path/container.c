/* Find, open and lock a container's state directory (ociruntime/runtime/host/state_directory.py). */
#include "fast_path.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const stale_prefixes[] = { ".creating-", ".deleting-" };

bool open_root(const struct request *request, struct container *container)
{
	char root[PATH_MAX];

	container->fd = -1;
	container->id = request->id;
	if (!find_state_root(request->root, root))
		return false;
	container->root_fd = open_trusted_way(root);
	return container->root_fd >= 0 && is_trusted(container->root_fd);
}

/* On failure, errno is set; `fd` is -1 only if the directory does not exist. */
bool open_container(struct container *container)
{
	struct record *record = &container->record;
	ssize_t length;

	container->fd = openat(container->root_fd, container->id,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (container->fd < 0 || !is_trusted(container->fd))
		return false;
	length = read_small_file(container->fd, "entry", record->text, sizeof(record->text));
	return length >= 0 && parse_record(record, (size_t)length);
}

/* Lock the state directory without waiting: the interpreter waits, and reports the timeout. */
bool lock_container(const struct container *container)
{
	struct stat opened, named;

	return flock(container->fd, LOCK_EX | LOCK_NB) == 0 &&
	       fstat(container->fd, &opened) == 0 &&
	       fstatat(container->root_fd, container->id, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Return true if a killed `create` or `delete` of this id may have left stale state. */
bool has_stale_directories(const struct container *container)
{
	char name[NAME_MAX + 1];
	struct stat found;

	for (size_t i = 0; i < sizeof(stale_prefixes) / sizeof(*stale_prefixes); i++) {
		if (!text_join(name, sizeof(name), stale_prefixes[i], container->id, NULL) ||
		    fstatat(container->root_fd, name, &found, AT_SYMLINK_NOFOLLOW) == 0 ||
		    errno != ENOENT)
			return true;
	}
	return false;
}
