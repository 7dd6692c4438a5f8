/*
 * exchange: a hostile process inside a container.
 *
 *   exchange A B      swap the two directory entries until killed
 *   exchange A B P    wait until another filesystem is mounted at P, swap once, then sleep
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

static int exchange(const char *a, const char *b)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static dev_t device_of(const char *path)
{
	struct stat found;

	return stat(path, &found) < 0 ? 0 : found.st_dev;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (argc == 4) {
		dev_t before = device_of(argv[3]);

		puts("ready");
		(void)fflush(stdout);
		while (device_of(argv[3]) == before)
			;
		if (exchange(argv[1], argv[2]) < 0) {
			perror("exchange");
			return 1;
		}
		for (;;)
			pause();
	}
	while (exchange(argv[1], argv[2]) == 0)
		usleep(20); /* the runtime is to get its turn as well */
	perror("exchange");
	return 1;
}
