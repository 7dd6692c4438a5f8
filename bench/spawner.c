/*
 * Starts commands for the benchmarks and reports what each has cost.
 *
 *     spawner OUTPUT
 *
 * An interpreter that measured would be measured too: the peak memory of a process includes that
 * of the program which it was before its exec. This one is small.
 *
 * A request on standard input is the number of commands, then each as its length and that many
 * bytes of words, each ended by NUL; all numbers are 32 bits. They are started one after another
 * without a wait. The answer on standard output is one struct cost for each, in their order.
 * The commands read /dev/null and write to OUTPUT. The end of standard input ends the program.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILED 1
#define MAX_COMMANDS 4096
#define MAX_WORDS 256

struct cost {
	int64_t status; /* as wait4(2) gives it */
	int64_t began, ended; /* nanoseconds of CLOCK_MONOTONIC */
	int64_t cpu; /* microseconds, user and system, with the children that it has waited for */
	int64_t faults; /* minor ones */
	int64_t memory; /* KiB, the largest of it and of those children */
};

extern char **environ;

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Returns false at the end of the input. */
static bool read_all(void *to, size_t size)
{
	char *at = to;

	while (size > 0) {
		ssize_t got = read(STDIN_FILENO, at, size);

		if (got < 0)
			err(FAILED, "read a request");
		if (got == 0)
			return false;
		at += got;
		size -= (size_t)got;
	}
	return true;
}

static void write_all(const void *from, size_t size)
{
	const char *at = from;

	while (size > 0) {
		ssize_t written = write(STDOUT_FILENO, at, size);

		if (written < 0)
			err(FAILED, "write an answer");
		at += written;
		size -= (size_t)written;
	}
}

static pid_t start(const char *output, char *words, size_t size)
{
	char *argv[MAX_WORDS + 1];
	posix_spawn_file_actions_t actions;
	size_t count = 0;
	pid_t pid;
	int error;

	for (char *word = words; word < words + size && count < MAX_WORDS; word += strlen(word) + 1)
		argv[count++] = word;
	argv[count] = NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_APPEND, 0);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	error = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	if (error != 0) {
		errno = error;
		err(FAILED, "start %s", argv[0]);
	}
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static void wait_for_all(const pid_t *pids, struct cost *costs, size_t count)
{
	for (size_t left = count; left > 0; left--) {
		struct rusage usage;
		int status;
		pid_t pid = wait4(-1, &status, 0, &usage);
		int64_t ended = now();
		size_t index = 0;

		if (pid < 0)
			err(FAILED, "wait");
		while (index < count && pids[index] != pid)
			index++;
		if (index == count)
			errx(FAILED, "not a command: process %d", (int)pid);
		costs[index].status = status;
		costs[index].ended = ended;
		costs[index].cpu = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
				   usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
		costs[index].faults = usage.ru_minflt;
		costs[index].memory = usage.ru_maxrss;
	}
}

int main(int argc, char *argv[])
{
	static pid_t pids[MAX_COMMANDS];
	static struct cost costs[MAX_COMMANDS];
	static char *words[MAX_COMMANDS];
	static uint32_t sizes[MAX_COMMANDS];
	uint32_t count;

	if (argc != 2)
		errx(2, "usage: spawner OUTPUT");
	/* The requests and answers are for no command. */
	fcntl(STDIN_FILENO, F_SETFD, FD_CLOEXEC);
	fcntl(STDOUT_FILENO, F_SETFD, FD_CLOEXEC);
	while (read_all(&count, sizeof(count))) {
		if (count > MAX_COMMANDS)
			errx(FAILED, "too many commands: %u", count);
		for (uint32_t index = 0; index < count; index++) {
			if (!read_all(&sizes[index], sizeof(sizes[index])))
				errx(FAILED, "half a request");
			words[index] = malloc(sizes[index]);
			if (!words[index] || !read_all(words[index], sizes[index]))
				errx(FAILED, "half a request");
		}
		for (uint32_t index = 0; index < count; index++) {
			costs[index].began = now();
			pids[index] = start(argv[1], words[index], sizes[index]);
		}
		wait_for_all(pids, costs, count);
		write_all(costs, count * sizeof(costs[0]));
		for (uint32_t index = 0; index < count; index++)
			free(words[index]);
	}
	return 0;
}
