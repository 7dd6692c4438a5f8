/* Write what a command prints to standard output. */
#include "fast_path.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int write_out(const char *text, size_t length)
{
	static const uint64_t ignored[8] = { 1 /* SIG_IGN */ }; /* struct sigaction of the kernel */
	size_t done = 0;

	/* Ignore SIGPIPE, as the interpreter does, in case the reader has closed the pipe. */
	(void)syscall(SYS_rt_sigaction, SIGPIPE, ignored, NULL, 8);
	while (done < length) {
		ssize_t written = write(STDOUT_FILENO, text + done, length - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return done == 0 ? FALL_BACK : 1;
		done += (size_t)written;
	}
	return 0;
}
