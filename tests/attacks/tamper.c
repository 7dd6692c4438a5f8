/*
 * tamper: tries to change files that are not its own, and says what the kernel let it do.
 *
 *   tamper fds          the standard streams, by descriptor and by /proc/self/fd
 *   tamper PATH...      these files, by name and by a descriptor of its own
 *
 * It needs no success to be of use: the test compares the host's files before and after.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *const attributes[] = { "user.a", "trusted.a", "security.a" };

static void say(int result, const char *call, const char *path)
{
	if (result == 0)
		printf("%s %s\n", call, path);
}

static void by_name(const char *path)
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	/* Times first: what is done to the mode is not to hide it. */
	say(utimensat(AT_FDCWD, path, NULL, 0), "utimensat-now", path);
	say(utimensat(AT_FDCWD, path, times, 0), "utimensat", path);
	for (int i = 0; i < 3; i++)
		say(setxattr(path, attributes[i], "a", 1, 0), "setxattr", path);
	say(chmod(path, 0640), "chmod", path);
	say(chown(path, 33, 34), "chown", path);
}

static void by_descriptor(int fd, const char *name)
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	say(futimens(fd, NULL), "futimens-now", name);
	say(futimens(fd, times), "futimens", name);
	for (int i = 0; i < 3; i++)
		say(fsetxattr(fd, attributes[i], "a", 1, 0), "fsetxattr", name);
	say(fchmod(fd, 0640), "fchmod", name);
	say(fchown(fd, 33, 34), "fchown", name);
}

int main(int argc, char **argv)
{
	char path[32];

	for (int i = 1; i < argc; i++) {
		int fd;

		if (strcmp(argv[i], "fds") != 0) {
			fd = open(argv[i], O_RDWR | O_NONBLOCK | O_NOCTTY);
			if (fd >= 0)
				by_descriptor(fd, argv[i]);
			by_name(argv[i]);
			continue;
		}
		for (fd = 0; fd < 3; fd++) {
			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			by_descriptor(fd, path);
			by_name(path);
		}
	}
	puts("tampered");
	return 0;
}
