/* Find the state root, by the rule in ociruntime/runtime/lifecycle/state_root.py. */
#include "fast_path.h"
#include "text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "ociruntime"

/*
 * The interpreter removes `.` and `..` from a path lexically; the kernel resolves them, which may
 * give another directory.
 */
static bool is_plain_path(const char *path)
{
	bool named = false;

	if (path[0] != '/')
		return false;
	while (*path) {
		size_t length;

		path += strspn(path, "/");
		length = strcspn(path, "/");
		if (length > 0 && length <= 2 && strspn(path, ".") >= length)
			return false;
		named |= length > 0;
		path += length;
	}
	return named;
}

/* Compare inode numbers: a nested namespace may have the same id map as the initial one. */
bool in_user_namespace(void)
{
	const ino_t first = 0xEFFFFFFD; /* PROC_USER_INIT_INO, include/linux/proc_ns.h */
	struct stat facts;

	return stat("/proc/self/ns/user", &facts) == 0 && facts.st_ino != first;
}

static bool is_rootless(void)
{
	const char *user = getenv("USER");

	if (geteuid() != 0)
		return true;
	return (!user || strcmp(user, "root") != 0) && in_user_namespace();
}

static bool put(char root[PATH_MAX], const char *path, const char *name)
{
	return is_plain_path(path) && text_join(root, PATH_MAX, path, name, NULL);
}

bool find_state_root(const char *given, char root[PATH_MAX])
{
	const char *directory = getenv("XDG_RUNTIME_DIR");

	if (given)
		return put(root, given, "");
	if (directory && directory[0] && is_rootless())
		return put(root, directory, "/" NAME);
	return put(root, "/run/" NAME, "");
}
