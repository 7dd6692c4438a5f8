/* The guest agent of an app: it relays data between the app's streams and its port to the host. */
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

#define PAUSE 20 /* milliseconds between two checks for a connection from the host */

enum { PORT, SIGNALS, OUTPUT, ERRORS, INPUT, WATCHED };

struct agent {
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

/* Forward available output; return false if there is none at present, or at end of file. */
static bool pass_on(struct agent *agent, int *from, unsigned char kind)
{
	unsigned char bytes[FRAME_MOST];
	ssize_t got = *from < 0 ? -1 : read(*from, bytes, sizeof(bytes));

	if (got > 0)
		return send_frame(agent->port, kind, bytes, (size_t)got);
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		shut(from);
	return false;
}

/* End the app: kill its remaining processes and send the rest of its output. */
static void finish(struct agent *agent, bool tell, int status)
{
	empty_cgroup(agent->app.cgroup);
	while (tell && pass_on(agent, &agent->app.output, 'o'))
		;
	while (tell && pass_on(agent, &agent->app.errors, 'e'))
		;
	shut(&agent->app.input);
	shut(&agent->app.output);
	shut(&agent->app.errors);
	agent->pending.size = 0;
	agent->no_more_input = false;
	agent->app.pid = 0;
	if (tell) {
		unsigned char bytes[4];

		for (int i = 0; i < 4; i++)
			bytes[i] = (unsigned char)((unsigned)status >> 8 * i & 0xff);
		(void)send_frame(agent->port, 'x', bytes, sizeof(bytes));
	}
}

static void end_app(struct agent *agent)
{
	pid_t pid = agent->app.pid;

	if (pid == 0)
		return;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	finish(agent, false, 0);
}

static void give_input(struct agent *agent)
{
	struct frame *pending = &agent->pending;

	if (pending->size > 0 && agent->app.input >= 0) {
		ssize_t done = write(agent->app.input, pending->bytes, pending->size);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (done < 0) { /* the app has closed its input */
			done = (ssize_t)pending->size;
			shut(&agent->app.input);
		}
		pending->size -= (size_t)done;
		memmove(pending->bytes, pending->bytes + done, pending->size);
	}
	if (agent->app.input < 0)
		pending->size = 0;
	if (pending->size == 0 && agent->no_more_input)
		shut(&agent->app.input);
}

static void start(struct agent *agent)
{
	char why[512] = "";

	end_app(agent);
	if (start_app(&agent->app, why, sizeof(why)))
		(void)send_frame(agent->port, 'r', NULL, 0);
	else
		(void)send_frame(agent->port, 'f', why, strlen(why));
}

static void obey(struct agent *agent, const struct frame *frame)
{
	switch (frame->kind) {
	case 's':
		start(agent);
		break;
	case 'k':
		if (agent->app.pid != 0 && frame->size == 1)
			(void)kill(agent->app.pid, frame->bytes[0]);
		break;
	case 'i':
		agent->pending = *frame;
		give_input(agent);
		break;
	case 'c':
		agent->no_more_input = true;
		give_input(agent);
		break;
	case 'd':
		end_app(agent);
		(void)send_frame(agent->port, 'd', frame->bytes, frame->size);
		break;
	default:
		break;
	}
}

/* Handle the received frames; stop at the first one if the app has not read its input yet. */
static void obey_all(struct agent *agent)
{
	struct frame frame;

	while (agent->pending.size == 0 && next_frame(&agent->incoming, &frame))
		obey(agent, &frame);
}

static void child_ended(struct agent *agent)
{
	struct signalfd_siginfo ignored;
	int status;

	(void)!read(agent->signals, &ignored, sizeof(ignored));
	if (agent->app.pid != 0 && waitpid(agent->app.pid, &status, WNOHANG) > 0)
		finish(agent, true, status);
}

/* The host has disconnected: nothing can read the app's output or send it signals any more. */
static void host_left(struct agent *agent)
{
	agent->incoming.held = 0;
	end_app(agent);
	(void)poll(NULL, 0, PAUSE);
}

static void once(struct agent *agent)
{
	bool waiting = agent->pending.size > 0;
	struct pollfd watched[WATCHED] = {
		[PORT] = { .fd = agent->port, .events = waiting ? 0 : POLLIN },
		[SIGNALS] = { .fd = agent->signals, .events = POLLIN },
		[OUTPUT] = { .fd = agent->app.output, .events = POLLIN },
		[ERRORS] = { .fd = agent->app.errors, .events = POLLIN },
		[INPUT] = { .fd = waiting ? agent->app.input : -1, .events = POLLOUT },
	};

	if (poll(watched, WATCHED, -1) < 0)
		return;
	if (watched[OUTPUT].revents)
		(void)pass_on(agent, &agent->app.output, 'o');
	if (watched[ERRORS].revents)
		(void)pass_on(agent, &agent->app.errors, 'e');
	if (watched[INPUT].revents)
		give_input(agent);
	if (watched[SIGNALS].revents)
		child_ended(agent);
	if ((watched[PORT].revents & POLLIN) && !receive(agent->port, &agent->incoming))
		host_left(agent);
	else if (watched[PORT].revents & POLLHUP && !(watched[PORT].revents & POLLIN))
		host_left(agent);
	obey_all(agent);
}

void serve_app(unsigned number)
{
	static struct agent agent = { .app = { .input = -1, .output = -1, .errors = -1 } };
	char description[32], device[32];
	sigset_t set;

	(void)snprintf(description, sizeof(description), "/apps/%u", number);
	(void)snprintf(device, sizeof(device), "/dev/vport0p%u", number + 2);
	agent.app.path = description;
	(void)snprintf(agent.app.cgroup, sizeof(agent.app.cgroup), "/cgroup/%u", number);
	while ((agent.port = open(device, O_RDWR | O_CLOEXEC)) < 0)
		(void)poll(NULL, 0, PAUSE);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigdelset(&set, SIGPIPE);
	agent.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	for (;;)
		once(&agent);
}
