/* A process of the host, identified by pid and start time: ociruntime/base/process.py. */
#include "fast_path.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STATE_FIELD = 3, THREADS_FIELD = 20, START_FIELD = 22 };
enum { TICKS = 100 }; /* USER_HZ */

static const char *skip_blanks(const char *at)
{
	while (*at == ' ')
		at++;
	return at;
}

/* Return the number in a field of /proc/PID/stat; `at` points to the third field, the state. */
static bool read_field(const char *at, int number, unsigned long long *value)
{
	for (int field = STATE_FIELD; field < number; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	return read_decimal(&at, value);
}

/*
 * Store the offset that our time namespace adds to start times, in clock ticks; it may be negative.
 */
static bool read_boot_offset(long long *ticks)
{
	static const char name[] = "\nboottime ";
	char offsets[256];
	unsigned long long seconds, nanoseconds;
	const char *at;
	bool negative;

	if (read_small_file(AT_FDCWD, "/proc/self/timens_offsets", offsets, sizeof(offsets)) < 0)
		return false;
	at = strchr(offsets, '\n'); /* the first line is that of the monotonic clock */
	if (!at || strncmp(at, name, sizeof(name) - 1) != 0)
		return false;
	at = skip_blanks(at + sizeof(name) - 1);
	negative = *at == '-';
	at += negative;
	if (!read_decimal(&at, &seconds))
		return false;
	at = skip_blanks(at);
	if (!read_decimal(&at, &nanoseconds))
		return false;
	*ticks = (long long)seconds * TICKS;
	*ticks = (negative ? -*ticks : *ticks) + (long long)nanoseconds / (1000000000 / TICKS);
	return true;
}

/* Compare start times; the recorded one is not shifted by any time namespace. */
static bool is_start(unsigned long long found, unsigned long long started)
{
	long long offset;

	return found == started || (read_boot_offset(&offset) && offset != 0 &&
				    (long long)found - offset == (long long)started);
}

enum life life_of(int pid, unsigned long long started)
{
	char path[64], stat[2048];
	struct text name = text_in(path, sizeof(path));
	unsigned long long threads, found;
	const char *at;

	text_add(&name, "/proc/");
	text_add_number(&name, (uint32_t)pid, 10);
	text_add(&name, "/stat");
	if (read_small_file(AT_FDCWD, path, stat, sizeof(stat)) < 0)
		return errno == ENOENT || errno == ESRCH ? ENDED : UNKNOWN;
	/* The process's name may contain blanks and parentheses; only fields follow the last ")". */
	at = strrchr(stat, ')');
	if (!at || at[1] != ' ' || !read_field(at + 2, THREADS_FIELD, &threads) ||
	    !read_field(at + 2, START_FIELD, &found))
		return UNKNOWN;
	/* If the main thread has exited, it stays a zombie as long as other threads run. */
	if (!is_start(found, started) || (strchr("ZXx", at[2]) && threads < 2))
		return ENDED;
	return ALIVE;
}

/* Return a pidfd, or -1 if the process has exited or cannot be opened. */
int open_process(int pid, unsigned long long started)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	/* Compare after opening: from here on the descriptor cannot refer to another process. */
	if (fd >= 0 && life_of(pid, started) != ALIVE) {
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
