/* The guest agent of an app: a process between the app and its port. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE 20 /* milliseconds between two checks for a connection of the host */

enum { PORT, SIGNALS, OUTPUT, ERRORS, INPUT, WATCHED };

struct minder {
	int port, signals;
	struct app app;
	struct incoming incoming;
	struct frame pending; /* input that the app has not read yet */
	bool no_more_input;
};

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Forward one piece of output; return false if there is none (any more). */
static bool pass_on(struct minder *minder, int *from, unsigned char kind)
{
	unsigned char bytes[FRAME_MOST];
	ssize_t got = *from < 0 ? -1 : read(*from, bytes, sizeof(bytes));

	if (got > 0)
		return send_frame(minder->port, kind, bytes, (size_t)got);
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		shut(from);
	return false;
}

/* The app has ended when none of its processes is left and all output has been sent. */
static void finish(struct minder *minder, bool tell, int status)
{
	empty_cgroup(minder->app.cgroup);
	while (tell && pass_on(minder, &minder->app.output, 'o'))
		;
	while (tell && pass_on(minder, &minder->app.errors, 'e'))
		;
	shut(&minder->app.input);
	shut(&minder->app.output);
	shut(&minder->app.errors);
	minder->pending.size = 0;
	minder->no_more_input = false;
	minder->app.pid = 0;
	if (tell) {
		unsigned char bytes[4];

		for (int i = 0; i < 4; i++)
			bytes[i] = (unsigned char)((unsigned)status >> 8 * i & 0xff);
		(void)send_frame(minder->port, 'x', bytes, sizeof(bytes));
	}
}

static void end_app(struct minder *minder)
{
	pid_t pid = minder->app.pid;

	if (pid == 0)
		return;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	finish(minder, false, 0);
}

static void give_input(struct minder *minder)
{
	struct frame *pending = &minder->pending;

	if (pending->size > 0 && minder->app.input >= 0) {
		ssize_t done = write(minder->app.input, pending->bytes, pending->size);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (done < 0) { /* it has closed its input */
			done = (ssize_t)pending->size;
			shut(&minder->app.input);
		}
		pending->size -= (size_t)done;
		memmove(pending->bytes, pending->bytes + done, pending->size);
	}
	if (minder->app.input < 0)
		pending->size = 0;
	if (pending->size == 0 && minder->no_more_input)
		shut(&minder->app.input);
}

static void start(struct minder *minder)
{
	char why[512] = "";

	end_app(minder);
	if (start_app(&minder->app, why, sizeof(why)))
		(void)send_frame(minder->port, 'r', NULL, 0);
	else
		(void)send_frame(minder->port, 'f', why, strlen(why));
}

static void obey(struct minder *minder, const struct frame *frame)
{
	switch (frame->kind) {
	case 's':
		start(minder);
		break;
	case 'k':
		if (minder->app.pid != 0 && frame->size == 1)
			(void)kill(minder->app.pid, frame->bytes[0]);
		break;
	case 'i':
		minder->pending = *frame;
		give_input(minder);
		break;
	case 'c':
		minder->no_more_input = true;
		give_input(minder);
		break;
	case 'd':
		end_app(minder);
		(void)send_frame(minder->port, 'd', frame->bytes, frame->size);
		break;
	default:
		break;
	}
}

/* While input waits for the app, later frames wait too. */
static void obey_all(struct minder *minder)
{
	struct frame frame;

	while (minder->pending.size == 0 && next_frame(&minder->incoming, &frame))
		obey(minder, &frame);
}

static void child_ended(struct minder *minder)
{
	struct signalfd_siginfo ignored;
	int status;

	(void)!read(minder->signals, &ignored, sizeof(ignored));
	if (minder->app.pid != 0 && waitpid(minder->app.pid, &status, WNOHANG) > 0)
		finish(minder, true, status);
}

/* The host has disconnected: nothing can read the app's output, or end it, any more. */
static void host_left(struct minder *minder)
{
	minder->incoming.held = 0;
	end_app(minder);
	(void)poll(NULL, 0, PAUSE);
}

static void once(struct minder *minder)
{
	bool waiting = minder->pending.size > 0;
	struct pollfd watched[WATCHED] = {
		[PORT] = { .fd = minder->port, .events = waiting ? 0 : POLLIN },
		[SIGNALS] = { .fd = minder->signals, .events = POLLIN },
		[OUTPUT] = { .fd = minder->app.output, .events = POLLIN },
		[ERRORS] = { .fd = minder->app.errors, .events = POLLIN },
		[INPUT] = { .fd = waiting ? minder->app.input : -1, .events = POLLOUT },
	};

	if (poll(watched, WATCHED, -1) < 0)
		return;
	if (watched[OUTPUT].revents)
		(void)pass_on(minder, &minder->app.output, 'o');
	if (watched[ERRORS].revents)
		(void)pass_on(minder, &minder->app.errors, 'e');
	if (watched[INPUT].revents)
		give_input(minder);
	if (watched[SIGNALS].revents)
		child_ended(minder);
	if ((watched[PORT].revents & POLLIN) && !receive(minder->port, &minder->incoming))
		host_left(minder);
	else if (watched[PORT].revents & POLLHUP && !(watched[PORT].revents & POLLIN))
		host_left(minder);
	obey_all(minder);
}

void mind_app(unsigned number)
{
	static struct minder minder = { .app = { .input = -1, .output = -1, .errors = -1 } };
	char description[32], device[32];
	sigset_t set;

	(void)snprintf(description, sizeof(description), "/apps/%u", number);
	(void)snprintf(device, sizeof(device), "/dev/vport0p%u", number + 2);
	minder.app.path = description;
	(void)snprintf(minder.app.cgroup, sizeof(minder.app.cgroup), "/cgroup/%u", number);
	while ((minder.port = open(device, O_RDWR | O_CLOEXEC)) < 0)
		(void)poll(NULL, 0, PAUSE);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigdelset(&set, SIGPIPE);
	minder.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;)
		once(&minder);
}
