/*
 * Check that only root and our own user can change or replace a directory, as
 * ociruntime/base/trusted_directories.py does.  If the check fails here, that module reports why.
 */
#include "fast_path.h"
#include "walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The overflow UID, shown for owners that a user namespace does not map, such as the host's root.
 */
enum { OVERFLOW_ID = 65534 };

static bool is_known(uid_t uid)
{
	return uid == 0 || uid == geteuid() || (uid == OVERFLOW_ID && in_user_namespace());
}

/* Return true for a safe directory on the path: a world-writable one must be sticky, like /tmp. */
static bool is_safe_to_pass(int fd)
{
	struct stat facts;

	return fstat(fd, &facts) == 0 && is_known(facts.st_uid) &&
	       (!(facts.st_mode & S_IWOTH) || (facts.st_mode & S_ISVTX));
}

static bool is_known_entry(int parent, const char *name)
{
	struct stat facts;

	return fstatat(parent, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && is_known(facts.st_uid);
}

static int open_directory(const char *path)
{
	return open(path[0] ? path : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Continue with `name`, or with its target if it is a symbolic link. */
static bool pass(struct walk *w, const char *name)
{
	int parent = open_directory(w->done), followed = -1;

	if (parent < 0)
		return false;
	if (is_safe_to_pass(parent) && is_known_entry(parent, name))
		followed = walk_follow(w, parent, name);
	close(parent);
	return followed > 0 || (followed == 0 && walk_enter(w, name) == 0);
}

/*
 * Open the absolute `path`; -1 if another user could redirect it.  No other user can replace the
 * components walked so far, so they can be looked up again by name.
 */
int open_trusted_way(const char *path)
{
	static struct walk w;
	char name[NAME_MAX + 1];
	int more;

	if (walk_start(&w, path) < 0)
		return -1;
	while ((more = walk_next(&w, name)) > 0)
		if (!pass(&w, name))
			return -1;
	return more < 0 ? -1 : open_directory(w.done);
}

/* Return true for a directory that belongs to root or to us, and that no one else may write to. */
bool is_trusted(int fd)
{
	struct stat facts;

	return fstat(fd, &facts) == 0 && (facts.st_uid == 0 || facts.st_uid == geteuid()) &&
	       (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
