/*
 * check_lock_holder: the lock holder kills a listed process, but not one whose pid was listed only at first,
 * as that of another process is when the pid is used again.  It finds each one in a tree of any depth,
 * for which ordinary directories stand here.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int list = -1;
static const char *later; /* what the list holds when it is read for the second time */
static int looks;

static off_t look_again(int fd, off_t offset, int whence)
{
	if (fd == list && ++looks == 2 && later) {
		(void)!ftruncate(list, 0);
		(void)!pwrite(list, later, __builtin_strlen(later), 0);
	}
	return lseek(fd, offset, whence);
}

#define lseek look_again
#include "../../csrc/pod_init/lock_holder.c"
#undef lseek

static int survives(const char *second)
{
	pid_t child = fork();
	char text[32];
	int status, alive;

	if (child == 0)
		for (;;)
			pause();
	snprintf(text, sizeof(text), "%d\n", (int)child);
	list = memfd_create("list", 0);
	if (child < 0 || list < 0 || write(list, text, strlen(text)) < 0)
		exit(2);
	later = second;
	looks = 0;
	(void)lseek(list, 0, SEEK_SET);
	if (!kill_listed(list))
		exit(3);
	close(list);
	(void)poll(NULL, 0, 200);
	alive = waitpid(child, &status, WNOHANG) == 0;
	kill(child, SIGKILL);
	if (alive)
		waitpid(child, &status, 0);
	return alive;
}

static pid_t list_child(int directory)
{
	int fd = openat(directory, "cgroup.procs", O_WRONLY | O_CREAT, 0600);
	pid_t child = fork();
	char text[32];

	if (child == 0)
		for (;;)
			pause();
	snprintf(text, sizeof(text), "%d\n", (int)child);
	if (child < 0 || fd < 0 || write(fd, text, strlen(text)) < 0)
		exit(2);
	close(fd);
	return child;
}

static bool killed(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

/* Two children in each of 3000 levels, of which the second has the next one, or the first. */
static int reaches_everything(const char *top)
{
	enum { LEVELS = 3000 };
	int here = open(top, O_RDONLY | O_DIRECTORY), side;
	pid_t deepest, aside = 0;

	list = -1;
	for (int level = 0; level < LEVELS; level++) {
		if (mkdirat(here, "a", 0700) < 0 || mkdirat(here, "b", 0700) < 0)
			return 6;
		if (level == LEVELS / 2) {
			side = openat(here, "b", O_RDONLY | O_DIRECTORY);
			aside = list_child(side);
			close(side);
		}
		if (!go_to(&here, level % 2 && level != LEVELS / 2 ? "b" : "a"))
			return 7;
	}
	deepest = list_child(here);
	close(here);
	if (!kill_cgroup(top))
		return 8;
	return killed(deepest) && killed(aside) ? 0 : 9;
}

/* A child in each of these, of which kernfs hashes the last two alike. */
static int reaches_names_alike(const char *top)
{
	static const char *const names[] = { "f1", "f2", "f3", "bdk", "aok" };
	enum { COUNT = sizeof(names) / sizeof(names[0]) };
	int here = open(top, O_RDONLY | O_DIRECTORY), below;
	pid_t children[COUNT];

	list = -1;
	for (int i = 0; i < COUNT; i++) {
		if (mkdirat(here, names[i], 0700) < 0)
			return 10;
		below = openat(here, names[i], O_RDONLY | O_DIRECTORY);
		children[i] = list_child(below);
		close(below);
	}
	close(here);
	if (!kill_cgroup(top))
		return 11;
	for (int i = 0; i < COUNT; i++)
		if (!killed(children[i]))
			return 12;
	return 0;
}

int main(int argc, char **argv)
{
	(void)be_lock_holder;
	if (argc == 3)
		return reaches_names_alike(argv[1]);
	if (argc == 2)
		return reaches_everything(argv[1]);
	if (survives(NULL))
		return 4;
	return survives("") ? 0 : 5;
}
