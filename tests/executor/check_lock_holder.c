/*
 * check_lock_holder: the lock holder kills a listed process, but not one whose pid was listed only at first,
 * as that of another process is when the pid is used again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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
#include "../../csrc/init/lock_holder.c"
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

int main(void)
{
	(void)be_lock_holder;
	if (survives(NULL))
		return 4;
	return survives("") ? 0 : 5;
}
