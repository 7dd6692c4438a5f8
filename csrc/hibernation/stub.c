/*
 * The hibernating monitor: a small program that a pod's idle monitor executes in place of the
 * interpreter, and that re-executes the monitor at the next event.
 *
 *   _hibernation TITLE WATCHED FILE PROGRAM ARGUMENT0 [ARGUMENT]... ""
 *
 * executes PROGRAM with these arguments, its own environment and all of its descriptors, as soon
 * as there is an event at WATCHED, an epoll(7) descriptor, or a signal.  It consumes neither: the
 * process that executes it has blocked signals, so PROGRAM still finds them pending.  PROGRAM reads
 * FILE at its start: it is not executed before FILE is readable.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WRONG_USE 2
#define PAUSE 1000 /* milliseconds until PROGRAM is tried again */

/* Indexes of the arguments in argv. */
enum { WATCHED = 1, FILE_READ, PROGRAM };

static int number(const char *text)
{
	int value = 0;

	for (; *text >= '0' && *text <= '9' && value < 100000000; text++)
		value = value * 10 + (*text - '0');
	if (*text != '\0')
		_exit(WRONG_USE);
	return value;
}

/*
 * Make ps show the first argument alone: if there is data directly behind the arguments, the kernel
 * shows only the first one (proc_pid_cmdline(5)).  The others are needed, but are of no interest.
 */
static void show_first_argument(int argc, char **argv)
{
	*argv[argc - 1] = '.';
	argv[argc - 1] = NULL;
}

static void await_event(int watched)
{
	uint64_t all = ~(uint64_t)0;
	struct pollfd both[] = {
		{ .fd = watched, .events = POLLIN },
		{ .events = POLLIN },
	};

	both[1].fd = (int)syscall(SYS_signalfd4, -1, &all, sizeof(all), O_CLOEXEC);
	/* Without this descriptor, signals would go unnoticed. */
	while (both[1].fd >= 0 && poll(both, 2, -1) < 0)
		;
}

int main(int argc, char **argv)
{
	char **environment = argv + argc + 1; /* as the kernel lays it out */

	if (argc < PROGRAM + 2 || *argv[argc - 1] != '\0')
		return WRONG_USE;
	(void)prctl(PR_SET_NAME, "ocipod-monitor", 0, 0, 0);
	show_first_argument(argc, argv);
	await_event(number(argv[WATCHED]));
	/* Memory may be short, or an upgrade in progress: retry; the apps keep running. */
	for (;;) {
		if (faccessat(AT_FDCWD, argv[FILE_READ], R_OK, 0) == 0)
			(void)execve(argv[PROGRAM], argv + PROGRAM + 1, environment);
		(void)poll(NULL, 0, PAUSE);
	}
}
