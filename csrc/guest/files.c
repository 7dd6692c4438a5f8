/* Read and write small files in the guest; make, limit and empty an app's cgroup. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE 2 /* milliseconds between two checks for remaining processes */

char *read_whole(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t held = 0, room = 4096;
	char *text = malloc(room);
	ssize_t got;

	while (fd >= 0 && text != NULL && (got = read(fd, text + held, room - held - 1)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		held += (size_t)got;
		if (room - held < 2) {
			char *larger = realloc(text, room * 2);

			if (larger == NULL)
				break;
			text = larger;
			room *= 2;
		}
	}
	if (fd < 0 || text == NULL) {
		free(text);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	close(fd);
	text[held] = '\0';
	if (size != NULL)
		*size = held;
	return text;
}

const char *next_record(const char *at)
{
	int strings = at[0] == 'm' ? 5 : at[0] == 'l' ? 2 : 1;

	while (strings-- > 0)
		at += strlen(at) + 1;
	return at;
}

bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t size = strlen(text);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, size) == (ssize_t)size;
	close(fd);
	return done;
}

bool make_cgroup(const char *cgroup)
{
	return mkdir(cgroup, 0755) == 0 || errno == EEXIST;
}

bool write_cgroup(const char *cgroup, const char *file, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	return write_text(path, text);
}

/* Kill each of the processes, for kernels before 5.14, which have no cgroup.kill. */
static void kill_each(char *pids)
{
	for (char *line = strtok(pids, "\n"); line != NULL; line = strtok(NULL, "\n"))
		(void)kill((pid_t)atoi(line), SIGKILL);
}

void empty_cgroup(const char *cgroup)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	for (;;) {
		char *pids = read_whole(path, NULL);
		bool empty = pids == NULL || pids[0] == '\0';

		if (!empty && !write_cgroup(cgroup, "cgroup.kill", "1"))
			kill_each(pids);
		free(pids);
		if (empty)
			return;
		(void)poll(NULL, 0, PAUSE);
	}
}
