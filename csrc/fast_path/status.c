/* Determine a container's status: Container.status in ociruntime/runtime/lifecycle/container.py. */
#include "fast_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_frozen(const char *freezer)
{
	static const char *const words[] = { "FROZEN\n", "FREEZING\n", "1\n" };
	char text[64];

	if (freezer[0] == '\0' || read_small_file(AT_FDCWD, freezer, text, sizeof(text)) < 0)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(text, words[i]) == 0)
			return true;
	return false;
}

/* A directory's link count includes the `..` of each of its subdirectories. */
bool has_child_cgroups(const char *directory)
{
	struct stat found;

	return stat(directory, &found) == 0 && found.st_nlink > 2;
}

static enum status ask_gate(const struct container *container)
{
	struct stat found;
	int fd;

	if (fstatat(container->fd, "start", &found, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? STATUS_RUNNING : STATUS_UNKNOWN;
	fd = connect_gate(container, SOCK_NONBLOCK);
	if (fd >= 0) {
		close(fd);
		return STATUS_CREATED;
	}
	if (errno == EAGAIN)
		return STATUS_CREATED;
	/* Refused: the program runs, or the init is dying; the interpreter finds out which. */
	return errno == ENOENT ? STATUS_RUNNING : STATUS_UNKNOWN;
}

enum status find_status(const struct container *container)
{
	const struct record *record = &container->record;
	/* Check the gate first: `delete` removes it too, but only after the init has exited. */
	enum status by_gate = ask_gate(container);

	switch (life_of(record->pid, record->started)) {
	case ENDED:
		return STATUS_STOPPED;
	case UNKNOWN:
		return STATUS_UNKNOWN;
	case ALIVE:
		break;
	}
	if (is_frozen(record->freezer))
		return STATUS_PAUSED;
	return by_gate;
}
