/* actions.c: reporting, waiting, ending, and what leaves a trace in a file. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t received[65];
static int trap_fd = -1;

static int complain(const char *what, const char *about)
{
	dprintf(2, "probe: %s %s: %s\n", what, about, strerror(errno));
	return 120;
}

static void put_all(void)
{
	put_descriptors();
	put_identity();
	put_credentials();
	put_limits();
	put_signals();
	put_terminal();
	put_namespaces();
	put_system();
	put_scheduling();
	put_memory_policy();
	put_interfaces();
	put_surroundings(probe_argv);
}

int do_facts(int argc, char **argv)
{
	put_open(NULL, '{');
	put_all();
	put_asked(argv, argc, NULL);
	put_close('}');
	put_end(report_fd);
	return -1;
}

/* Number after "pid": in a state document; "" if there is none. */
static const char *pid_in(const char *state)
{
	static char pid[16];
	const char *place = strstr(state, "\"pid\"");
	place = place ? strchr(place, ':') : NULL;
	snprintf(pid, sizeof(pid), "%d", place ? atoi(place + 1) : 0);
	return pid;
}

/* hook FILE WORD [stat=...]...: append what it was given, in one write. */
int do_hook(int argc, char **argv)
{
	static char state[1 << 16];
	size_t used = 0;
	ssize_t length;
	if (argc < 2)
		return 121;
	while ((length = read(0, state + used, sizeof(state) - 1 - used)) > 0)
		used += (size_t)length;
	put_open(NULL, '{');
	put_text("word", argv[1]);
	put_bytes("stdin", state, used);
	put_all();
	put_asked(argv + 2, argc - 2, pid_in(state));
	put_close('}');
	int fd = open(argv[0], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return complain("cannot open", argv[0]);
	put_end(fd);
	close(fd);
	return -1;
}

int do_sleep(int argc, char **argv)
{
	if (argc < 1)
		for (;;)
			pause();
	double seconds = strtod(argv[0], NULL);
	struct timespec rest = {(time_t)seconds, 0};
	rest.tv_nsec = (long)((seconds - (double)rest.tv_sec) * 1e9);
	while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
		;
	return -1;
}

int do_exit(int argc, char **argv)
{
	return argc > 0 ? atoi(argv[0]) & 255 : 0;
}

int do_die(int argc, char **argv)
{
	raise(argc > 0 ? signal_number(argv[0]) : SIGKILL);
	return 122;
}

static void note(int number)
{
	char line[16];
	int length = snprintf(line, sizeof(line), "%d\n", number);
	received[number] = 1;
	if (write(trap_fd, line, (size_t)length) < 0)
		_exit(123);
}

/* trap FILE SIGNAL...: each arrival becomes a line; "ready" is the first. */
int do_trap(int argc, char **argv)
{
	struct sigaction action;
	if (argc < 2)
		return 121;
	trap_fd = open(argv[0], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (trap_fd < 0)
		return complain("cannot open", argv[0]);
	memset(&action, 0, sizeof(action));
	action.sa_handler = note;
	for (int i = 1; i < argc; i++)
		if (sigaction(signal_number(argv[i]), &action, NULL) < 0)
			return complain("cannot trap", argv[i]);
	return write(trap_fd, "ready\n", 6) == 6 ? -1 : 123;
}

/* await SIGNAL: until a trapped signal has come. */
int do_await(int argc, char **argv)
{
	int number = argc > 0 ? signal_number(argv[0]) : SIGTERM;
	struct timespec moment = {0, 10000000};
	while (number > 0 && number < 65 && !received[number])
		nanosleep(&moment, NULL);
	return -1;
}

static int append(const char *path, int flags, int argc, char **argv)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
	if (fd < 0)
		return complain("cannot open", path);
	for (int i = 0; i < argc; i++) {
		char *line = NULL;
		int length = asprintf(&line, "%s\n", argv[i]);
		ssize_t written = length < 0 ? -1 : write(fd, line, (size_t)length);
		free(line);
		if (written < 0)
			return complain("cannot write", path);
	}
	close(fd);
	return -1;
}

int do_touch(int argc, char **argv)
{
	return argc < 1 ? 121 : append(argv[0], O_CREAT, 0, NULL);
}

int do_append(int argc, char **argv)
{
	return argc < 1 ? 121 : append(argv[0], O_CREAT | O_APPEND, argc - 1, argv + 1);
}

int do_write(int argc, char **argv)
{
	return argc < 1 ? 121 : append(argv[0], O_CREAT | O_TRUNC, argc - 1, argv + 1);
}

int do_mkdir(int argc, char **argv)
{
	return argc == 1 && mkdir(argv[0], 0777) == 0 ? -1 : complain("cannot make", argv[0]);
}

int do_symlink(int argc, char **argv)
{
	return argc == 2 && symlink(argv[0], argv[1]) == 0 ? -1 : complain("cannot link", argv[0]);
}

/* cat [FILE]: as it is, to standard output. */
int do_cat(int argc, char **argv)
{
	char bytes[4096];
	ssize_t length;
	int fd = argc > 0 ? open(argv[0], O_RDONLY | O_CLOEXEC) : 0;
	if (fd < 0)
		return complain("cannot open", argv[0]);
	while ((length = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(1, bytes, (size_t)length) < 0)
			return complain("cannot write", "standard output");
	if (fd > 0)
		close(fd);
	return -1;
}

/* wait FILE: until it is there. */
int do_wait(int argc, char **argv)
{
	struct timespec moment = {0, 10000000};
	while (argc > 0 && access(argv[0], F_OK) < 0)
		nanosleep(&moment, NULL);
	return -1;
}

/* to FILE: later reports go there instead of standard output. */
int do_to(int argc, char **argv)
{
	report_fd = argc > 0 ? open(argv[0], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : 1;
	return report_fd < 0 ? complain("cannot open", argv[0]) : -1;
}

/* exec PROGRAM ARGV0 ...: does not come back. */
int do_exec(int argc, char **argv)
{
	if (argc < 2)
		return 121;
	execve(argv[0], argv + 1, environ);
	return complain("cannot execute", argv[0]);
}

/* fork: the child does the rest, the parent ends as it does. */
int do_fork(int argc, char **argv)
{
	(void)argc, (void)argv;
	int status = 0;
	pid_t child = fork();
	if (child == 0)
		return -1;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return complain("cannot", "fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* background [session]: leaves a sleeping child, which ignores what it can. */
int do_background(int argc, char **argv)
{
	(void)argv;
	pid_t child = fork();
	if (child < 0)
		return complain("cannot", "fork");
	if (child > 0)
		return -1;
	if (argc > 0)
		setsid();
	for (int number = 1; number < 65; number++)
		signal(number, SIG_IGN);
	for (;;)
		pause();
}

/* send SOCKET TEXT: one datagram. */
int do_send(int argc, char **argv)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (argc != 2 || fd < 0)
		return 121;
	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[0]);
	ssize_t sent = sendto(fd, argv[1], strlen(argv[1]), 0, (void *)&address, sizeof(address));
	close(fd);
	return sent < 0 ? complain("cannot send to", argv[0]) : -1;
}

/* eat BYTES: keeps that much memory in use. */
int do_eat(int argc, char **argv)
{
	static char *eaten;
	size_t size = argc > 0 ? strtoull(argv[0], NULL, 0) : 0;
	free(eaten);
	eaten = malloc(size + 1);
	if (!eaten)
		return complain("cannot eat", "memory");
	memset(eaten, 1, size + 1);
	/* The optimizer may not find the memory unused. */
	__asm__ volatile("" : : "r"(eaten) : "memory");
	return -1;
}

int do_echo(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		dprintf(1, "%s%s", i ? " " : "", argv[i]);
	dprintf(1, "\n");
	return -1;
}

int do_complain(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		dprintf(2, "%s%s", i ? " " : "", argv[i]);
	dprintf(2, "\n");
	return -1;
}
