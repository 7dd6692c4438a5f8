/*
 * Seize every process that appears in this pid namespace, and print what it had by then.
 *
 *   tracer [all]    all: those that are there already, too
 *
 * A line for each new combination: name, capability sets, seccomp mode, user namespace.  What it
 * has not seized it says nothing about.  A process is seized again and again until it ends, for
 * as long as it has the name with which it was first seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define AHEAD 16   /* how many numbers beyond the last process are tried */
#define WATCHED 64 /* processes at once */
#define LINES 256  /* combinations */

struct watched {
	int pid;
	char name[32];
};

static struct watched watched[WATCHED];
static char lines[LINES][256];
static int line_count;
static char own_namespace[64];

static void field(const char *status, const char *name, char *to, size_t size)
{
	const char *at = strstr(status, name);
	size_t length;

	to[0] = '\0';
	if (!at)
		return;
	at += strlen(name);
	at += strspn(at, " \t");
	length = strcspn(at, "\n");
	snprintf(to, size, "%.*s", (int)length, at);
}

static void print_once(const char *line)
{
	for (int i = 0; i < line_count; i++)
		if (strcmp(lines[i], line) == 0)
			return;
	if (line_count < LINES)
		strcpy(lines[line_count++], line);
	puts(line);
	fflush(stdout);
}

/* Returns false once it has ended, or has become another program. */
static bool note(struct watched *one)
{
	char path[64], status[4096], line[256], name[32], state[32], sets[3][32], mode[8];
	char namespace[64] = "";
	FILE *file;
	size_t size;

	snprintf(path, sizeof(path), "/proc/%d/status", one->pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	size = fread(status, 1, sizeof(status) - 1, file);
	fclose(file);
	status[size] = '\0';
	field(status, "Name:", name, sizeof(name));
	field(status, "State:", state, sizeof(state));
	if (size == 0 || state[0] == 'Z' || state[0] == 'X')
		return false;
	field(status, "CapPrm:", sets[0], sizeof(sets[0]));
	field(status, "CapEff:", sets[1], sizeof(sets[1]));
	field(status, "CapBnd:", sets[2], sizeof(sets[2]));
	field(status, "Seccomp:", mode, sizeof(mode));
	snprintf(path, sizeof(path), "/proc/%d/ns/user", one->pid);
	if (readlink(path, namespace, sizeof(namespace) - 1) < 0)
		return true;
	snprintf(line, sizeof(line), "seized %s %s %s %s %s %s", name, sets[0], sets[1], sets[2],
		 mode, strcmp(namespace, own_namespace) == 0 ? "own" : "other");
	print_once(line);
	if (one->name[0] && strcmp(one->name, name) != 0)
		return false;
	strcpy(one->name, name);
	return true;
}

/* Returns false if there is no reason to look at it again. */
static bool seize(struct watched *one)
{
	int status, number = 0;
	bool again;

	if (ptrace(PTRACE_SEIZE, one->pid, NULL, NULL) < 0)
		return errno == EPERM;
	again = note(one);
	ptrace(PTRACE_INTERRUPT, one->pid, NULL, NULL);
	if (waitpid(one->pid, &status, __WALL) != one->pid || !WIFSTOPPED(status))
		return false;
	again = note(one) && again;
	if (status >> 16 != PTRACE_EVENT_STOP)
		number = WSTOPSIG(status);
	if (ptrace(PTRACE_DETACH, one->pid, NULL, (void *)(long)number) == 0)
		return again;
	/* Killed meanwhile; its parent hears of its end once we have. */
	(void)waitpid(one->pid, &status, __WALL);
	return false;
}

static void watch(struct watched one)
{
	for (int i = 0; i < WATCHED; i++) {
		if (!watched[i].pid) {
			watched[i] = one;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	int self = getpid(), next = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : self + 1;

	if (readlink("/proc/self/ns/user", own_namespace, sizeof(own_namespace) - 1) < 0)
		return 1;
	puts("tracing");
	fflush(stdout);
	for (;;) {
		for (int pid = next; pid < next + AHEAD; pid++) {
			struct watched one = { .pid = pid };

			if (pid == self || (kill(pid, 0) < 0 && errno == ESRCH))
				continue;
			next = pid + 1;
			if (seize(&one))
				watch(one);
		}
		for (int i = 0; i < WATCHED; i++)
			if (watched[i].pid && !seize(&watched[i]))
				watched[i].pid = 0;
	}
}
