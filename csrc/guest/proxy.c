/*
 * The proxy, a process on the host that stands for an app in a virtual machine: it forwards input
 * and signals to the app, and exits with the app's status.  Descriptors 0, 1 and 2 are the app's
 * streams; 3 is the socket of the app's port.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 3
#define LOST 254 /* the machine has ended, and with it the app */

static void write_out(int fd, const unsigned char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return; /* the reader is gone */
		bytes += done;
		size -= (size_t)done;
	}
}

/* Return true for a signal that would stop this process, and so keep its app for ever: the guest,
 * which reports the app's signal, is not trusted. */
static bool stops(int number)
{
	return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static _Noreturn void end_like(const struct frame *frame)
{
	struct rlimit none = { 0, 0 };
	sigset_t all;
	int status = 0;

	for (int i = 0; i < 4; i++)
		status |= frame->bytes[i] << 8 * i;
	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	if (!stops(WTERMSIG(status))) {
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(WTERMSIG(status), SIG_DFL);
		(void)sigfillset(&all);
		(void)raise(WTERMSIG(status));
		(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
	}
	_exit(128 + WTERMSIG(status)); /* the signal does not end a process */
}

static void obey(const struct frame *frame)
{
	if (frame->kind == 'o')
		write_out(1, frame->bytes, frame->size);
	else if (frame->kind == 'e')
		write_out(2, frame->bytes, frame->size);
	else if (frame->kind == 'x' && frame->size == 4)
		end_like(frame);
}

static void pass_signal(int fd)
{
	struct signalfd_siginfo signal;
	unsigned char number;

	if (read(fd, &signal, sizeof(signal)) != (ssize_t)sizeof(signal))
		return;
	number = (unsigned char)signal.ssi_signo;
	(void)send_frame(PORT, 'k', &number, 1);
}

/* Forward input to the app; return false at the end of the input. */
static bool pass_input(void)
{
	unsigned char bytes[FRAME_MOST];
	ssize_t got = read(0, bytes, sizeof(bytes));

	if (got > 0)
		return send_frame(PORT, 'i', bytes, (size_t)got);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	(void)send_frame(PORT, 'c', NULL, 0);
	return false;
}

int run_proxy(void)
{
	static struct incoming incoming;
	static struct frame frame;
	struct pollfd watched[] = {
		{ .fd = PORT, .events = POLLIN }, { .events = POLLIN }, { .fd = 0, .events = POLLIN }
	};
	sigset_t all;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)sigdelset(&all, SIGPIPE);
	watched[1].fd = signalfd(-1, &all, SFD_CLOEXEC);
	for (;;) {
		while (next_frame(&incoming, &frame))
			obey(&frame);
		if (poll(watched, 3, -1) < 0)
			continue;
		if (watched[1].revents)
			pass_signal(watched[1].fd);
		if (watched[2].revents && !pass_input())
			watched[2].fd = -1;
		if (watched[0].revents && !receive(PORT, &incoming))
			return LOST;
	}
}
