/* A process of the host, identified by pid and start time: ociruntime/base/process.py. */
#include "entry.h"
#include "text.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STATE_FIELD = 3, START_FIELD = 22 };

/* Return the process's start time, 0 if it has exited: a zombie counts as exited. */
static unsigned long long start_time(int pid)
{
	char path[64], stat[2048];
	struct text name = text_in(path, sizeof(path));
	unsigned long long started;
	const char *at;

	text_add(&name, "/proc/");
	text_add_number(&name, (uint32_t)pid, 10);
	text_add(&name, "/stat");
	if (read_small_file(AT_FDCWD, path, stat, sizeof(stat)) < 0)
		return 0;
	/* The name may contain blanks and parentheses; only fields follow its last ")". */
	at = strrchr(stat, ')');
	if (!at || at[1] != ' ' || at[2] == '\0' || strchr("ZXx", at[2]))
		return 0;
	at += 2;
	for (int field = STATE_FIELD; field < START_FIELD; field++) {
		at = strchr(at, ' ');
		if (!at)
			return 0;
		at++;
	}
	return read_decimal(&at, &started) ? started : 0;
}

bool is_alive(int pid, unsigned long long started)
{
	return start_time(pid) == started;
}

/* Return a pidfd, or -1 if the process is gone or cannot be opened. */
int open_process(int pid, unsigned long long started)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	/* Compare after opening: from here on the descriptor cannot refer to another process. */
	if (fd >= 0 && !is_alive(pid, started)) {
		close(fd);
		return -1;
	}
	return fd;
}

int signal_process(int pidfd, int number)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

bool await_end(int pidfd, int milliseconds)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	return poll(&ended, 1, milliseconds) == 1;
}
