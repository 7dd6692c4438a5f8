/* Start an app's process in a cgroup of its own, with pipes as its streams. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT, OUTPUT, ERRORS, REPORT, PIPES };

static void close_pair(int pair[2])
{
	for (int end = 0; end < 2; end++)
		if (pair[end] >= 0)
			close(pair[end]);
}

/* Create the pipes; end 0 of each is the read end. */
static bool make_pipes(int pipes[PIPES][2])
{
	memset(pipes, 0xff, sizeof(int[PIPES][2]));
	for (int i = 0; i < PIPES; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			return false;
	return true;
}

/* Write the app's limits, pairs of a cgroup file and its value. */
static void set_limits(const struct app *app, const char *text, size_t size)
{
	for (const char *at = text; at < text + size; at = next_record(at)) {
		const char *file = at + 1;

		if (at[0] == 'l' && !write_cgroup(app->cgroup, file, file + strlen(file) + 1))
			printf("ocipod: %s/%s: %s\n", app->path, file, strerror(errno));
	}
	(void)fflush(stdout);
}

static _Noreturn void be_child(const struct app *app, int pipes[PIPES][2], char *text, size_t size)
{
	sigset_t none;

	(void)setsid();
	if (!write_cgroup(app->cgroup, "cgroup.procs", "0"))
		_exit(1);
	(void)dup2(pipes[INPUT][0], 0);
	(void)dup2(pipes[OUTPUT][1], 1);
	(void)dup2(pipes[ERRORS][1], 2);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	become_app(text, size, pipes[REPORT][1]);
}

/* Return true if the app's program was executed: then the report pipe closes without data. */
static bool was_started(int report, char *why, size_t room)
{
	size_t held = 0;
	ssize_t got;

	while (held < room - 1 && (got = read(report, why + held, room - 1 - held)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		held += got > 0 ? (size_t)got : 0;
	}
	why[held] = '\0';
	return held == 0;
}

static int keep(int pair[2], int end)
{
	int fd = pair[end];

	pair[end] = -1;
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

bool start_app(struct app *app, char *why, size_t room)
{
	int pipes[PIPES][2];
	size_t size = 0;
	char *text = read_whole(app->path, &size);
	bool started = false;

	if (!make_pipes(pipes) || text == NULL || !make_cgroup(app->cgroup)) {
		(void)snprintf(why, room, "%s: %s", app->path, strerror(errno));
		goto out;
	}
	set_limits(app, text, size);
	app->pid = fork();
	if (app->pid < 0) {
		(void)snprintf(why, room, "fork: %s", strerror(errno));
		app->pid = 0;
		goto out;
	}
	if (app->pid == 0)
		be_child(app, pipes, text, size);
	close(pipes[REPORT][1]);
	pipes[REPORT][1] = -1;
	started = was_started(pipes[REPORT][0], why, room);
	if (!started) {
		(void)waitpid(app->pid, NULL, 0);
		app->pid = 0;
		goto out;
	}
	app->input = keep(pipes[INPUT], 1);
	app->output = keep(pipes[OUTPUT], 0);
	app->errors = keep(pipes[ERRORS], 0);
out:
	for (int i = 0; i < PIPES; i++)
		close_pair(pipes[i]);
	free(text);
	return started;
}
