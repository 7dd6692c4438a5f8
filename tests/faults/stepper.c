/*
 * Trace a command and all its processes, and interfere at one system-call boundary:
 *
 *   stepper LOG list                             -- COMMAND...   write down every call
 *   stepper LOG kill command|caller|all NAME N   -- COMMAND...   SIGKILL before the N-th call
 *   stepper LOG interrupt x NAME N               -- COMMAND...   SIGINT to the command, before it
 *   stepper LOG hold x NAME N                    -- COMMAND...   stop (SIGSTOP) before the N-th call
 *   stepper LOG fail ERRNO NAME NUMBER N         -- COMMAND...   skip the N-th call of that number
 *   stepper LOG follow list|kill|...                             also after the command's end
 *
 * With a NUMBER, the others count the calls of that number alone, too; of these there are as many in
 * each run, while the number of all may differ by a few.
 *
 * A process has a NAME that is the same in each run: "0" is the command, "0.1" its first child.
 * Calls are counted from 1 in each process, from the exec of the command.  LOG gets a line per
 * call, "call NAME N NUMBER PATH" (list) or "acted NAME N NUMBER PATH" (else), and "end STATUS" with
 * the command's wait status, written when it ends.  With `follow` the processes that it leaves
 * running are traced until they have ended, too.  With `hold` this program stops itself, and the
 * command with it, until it gets SIGCONT.
 *
 * After the interference nothing is traced any more: the rest runs at full speed, and the kernel
 * reports a death to the real parent alone.  Only processes that this program has started are
 * traced, and the kernel kills them if it dies while it traces them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PROCESSES = 256, NAME_SIZE = 64, PATH_SIZE = 256, MOST_NUMBERS = 512 };

enum action { LIST, KILL_COMMAND, KILL_CALLER, KILL_ALL, FAIL, HOLD, INTERRUPT };

struct tracee {
	pid_t pid; /* 0: gone */
	char name[NAME_SIZE]; /* empty: its parent's event has not been reported yet */
	unsigned long calls;
	unsigned short of_number[MOST_NUMBERS];
	unsigned children;
	bool held; /* stopped until it has a name */
};

static struct tracee tracees[MOST_PROCESSES];
static enum action action;
static const char *wanted_name;
static unsigned long wanted_call;
static int wanted_errno;
static bool by_number; /* calls are counted by number, not all together */
static unsigned long wanted_number;
static FILE *out;
static bool started; /* the command has been executed */
static bool follow; /* trace what the command leaves running */
static bool letting_go; /* everything that stops is detached */
static struct tracee *failing; /* until the skipped call returns */
static int end_status = -1;

static void die(const char *what)
{
	perror(what);
	exit(125);
}

static struct tracee *find(pid_t pid)
{
	for (size_t i = 0; i < MOST_PROCESSES; i++)
		if (tracees[i].pid == pid)
			return &tracees[i];
	return NULL;
}

static struct tracee *find_or_add(pid_t pid)
{
	struct tracee *one = find(pid);

	if (one)
		return one;
	one = find(0);
	if (!one) {
		errno = ENOBUFS;
		die("processes");
	}
	memset(one, 0, sizeof(*one));
	one->pid = pid;
	return one;
}

static void go_on(const struct tracee *one, int number)
{
	if (ptrace(PTRACE_SYSCALL, one->pid, 0, (long)number) < 0 && errno != ESRCH)
		die("PTRACE_SYSCALL");
}

static void let_go(struct tracee *one, int number)
{
	if (ptrace(PTRACE_DETACH, one->pid, 0, (long)number) < 0 && errno != ESRCH)
		die("PTRACE_DETACH");
	one->pid = 0;
}

/* Those that run or wait in the kernel stop once more, and are detached then. */
static void let_all_go(void)
{
	letting_go = true;
	for (size_t i = 0; i < MOST_PROCESSES; i++) {
		if (!tracees[i].pid)
			continue;
		if (tracees[i].held)
			let_go(&tracees[i], 0);
		else
			ptrace(PTRACE_INTERRUPT, tracees[i].pid, 0, 0);
	}
}

static const struct {
	unsigned long number;
	int argument;
} paths[] = {
	{ SYS_open, 0 },      { SYS_openat, 1 },     { SYS_openat2, 1 },    { SYS_mkdir, 0 },
	{ SYS_mkdirat, 1 },   { SYS_rename, 1 },     { SYS_renameat, 3 },   { SYS_renameat2, 3 },
	{ SYS_unlink, 0 },    { SYS_unlinkat, 1 },   { SYS_rmdir, 0 },	    { SYS_stat, 0 },
	{ SYS_lstat, 0 },     { SYS_newfstatat, 1 }, { SYS_access, 0 },	    { SYS_faccessat2, 1 },
	{ SYS_readlink, 0 },  { SYS_readlinkat, 1 }, { SYS_execve, 0 },	    { SYS_chdir, 0 },
	{ SYS_mount, 1 },     { SYS_umount2, 0 },    { SYS_move_mount, 3 }, { SYS_chown, 0 },
	{ SYS_fchownat, 1 },  { SYS_chmod, 0 },	     { SYS_symlinkat, 2 },  { SYS_mknodat, 1 },
	{ SYS_memfd_create, 0 }, { SYS_statx, 1 },   { SYS_open_tree, 1 },  { SYS_linkat, 3 },
};

/* Return the type of the lock (struct flock) that is set, F_UNLCK also if there is none. */
static short lock_type(pid_t pid, const struct __ptrace_syscall_info *info)
{
	short type = F_UNLCK;
	struct iovec ours = { &type, sizeof(type) };
	struct iovec theirs = { (void *)(size_t)info->entry.args[2], sizeof(type) };

	return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) < 0 ? (short)F_UNLCK : type;
}

static void read_path(pid_t pid, const struct __ptrace_syscall_info *info, char path[PATH_SIZE])
{
	struct iovec ours = { path, PATH_SIZE - 1 }, theirs = { NULL, PATH_SIZE - 1 };

	path[0] = '\0';
	if (info->entry.nr == SYS_fcntl)
		snprintf(path, PATH_SIZE, "command %llu%s", (unsigned long long)info->entry.args[1],
			 info->entry.args[1] == F_SETLK && lock_type(pid, info) == F_UNLCK ? " unlock" : "");
	if (info->entry.nr == SYS_fsync || info->entry.nr == SYS_fdatasync) {
		char link[64];
		ssize_t length;

		(void)snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)pid, (int)info->entry.args[0]);
		length = readlink(link, path, PATH_SIZE - 1);
		path[length > 0 ? length : 0] = '\0';
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		ssize_t got;

		if (paths[i].number != info->entry.nr)
			continue;
		theirs.iov_base = (void *)(size_t)info->entry.args[paths[i].argument];
		/* A string near the end of its page: less is read. */
		theirs.iov_len = PATH_SIZE - 1;
		got = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
		if (got < 0) {
			theirs.iov_len = 4096 - (size_t)theirs.iov_base % 4096;
			if (theirs.iov_len > PATH_SIZE - 1)
				theirs.iov_len = PATH_SIZE - 1;
			got = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
		}
		path[got > 0 ? got : 0] = '\0';
	}
	for (char *at = path; *at; at++)
		if (*at == '\n' || *at == '\t')
			*at = '?';
}

static void write_line(const char *word, const struct tracee *one,
		       const struct __ptrace_syscall_info *info)
{
	char path[PATH_SIZE];

	read_path(one->pid, info, path);
	fprintf(out, "%s\t%s\t%lu\t%llu\t%s\n", word, one->name, one->calls,
		(unsigned long long)info->entry.nr, path);
	fflush(out);
}

static void set_number(pid_t pid, size_t place, long value)
{
	if (ptrace(PTRACE_POKEUSER, pid, place, value) < 0)
		die("PTRACE_POKEUSER");
}

static void signal_one(const struct tracee *one, int number)
{
	if (one && one->pid)
		kill(one->pid, number);
}

static void signal_command(int number)
{
	for (size_t i = 0; i < MOST_PROCESSES; i++)
		if (strcmp(tracees[i].name, "0") == 0)
			signal_one(&tracees[i], number);
}

/* The call has not been made yet; it never is in a process that is killed here. */
static void act(struct tracee *one)
{
	switch (action) {
	case LIST:
		return;
	case KILL_COMMAND:
		signal_command(SIGKILL);
		break;
	case KILL_CALLER:
		signal_one(one, SIGKILL);
		break;
	case KILL_ALL:
		for (size_t i = 0; i < MOST_PROCESSES; i++)
			signal_one(&tracees[i], SIGKILL);
		break;
	case INTERRUPT:
		signal_command(SIGINT);
		break;
	case HOLD:
		raise(SIGSTOP);
		break;
	case FAIL:
		set_number(one->pid, offsetof(struct user_regs_struct, orig_rax), -1);
		failing = one;
		go_on(one, 0);
		return;
	}
	let_all_go();
	let_go(one, 0);
}

static bool is_wanted(const struct tracee *one, const struct __ptrace_syscall_info *info)
{
	if (strcmp(one->name, wanted_name) != 0)
		return false;
	if (by_number)
		return info->entry.nr == wanted_number &&
		       one->of_number[wanted_number] == wanted_call;
	return one->calls == wanted_call;
}

static void at_call(struct tracee *one)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, one->pid, sizeof(info), &info) < 0) {
		if (errno == ESRCH)
			return; /* killed meanwhile */
		die("PTRACE_GET_SYSCALL_INFO");
	}
	if (one == failing && info.op == PTRACE_SYSCALL_INFO_EXIT) {
		set_number(one->pid, offsetof(struct user_regs_struct, rax), -wanted_errno);
		failing = NULL;
		let_all_go();
		let_go(one, 0);
		return;
	}
	if (started && info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		one->calls++;
		if (info.entry.nr < MOST_NUMBERS)
			one->of_number[info.entry.nr]++;
		if (action == LIST) {
			write_line("call", one, &info);
		} else if (!failing && is_wanted(one, &info)) {
			write_line("acted", one, &info);
			act(one);
			return;
		}
	}
	go_on(one, 0);
}

static void at_fork(struct tracee *parent)
{
	unsigned long pid;
	struct tracee *child;

	if (ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid) == 0) {
		child = find_or_add((pid_t)pid);
		snprintf(child->name, sizeof(child->name), "%.50s.%u", parent->name,
			 ++parent->children);
		if (child->held) {
			child->held = false;
			go_on(child, 0);
		}
	}
	go_on(parent, 0);
}

/* CRIU traces the processes that it restores: it, and they, cannot be traced here. */
static bool traces_itself(pid_t pid)
{
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "criu\n") == 0;
}

static void at_stop(struct tracee *one, int status)
{
	int number = WSTOPSIG(status), event = status >> 16;

	if (letting_go) {
		bool delivered = event == 0 && number != (SIGTRAP | 0x80);

		let_go(one, delivered ? number : 0);
	} else if (!one->name[0]) {
		one->held = true;
	} else if (number == (SIGTRAP | 0x80)) {
		at_call(one);
	} else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		   event == PTRACE_EVENT_CLONE) {
		at_fork(one);
	} else if (event == PTRACE_EVENT_STOP && number != SIGTRAP) {
		ptrace(PTRACE_LISTEN, one->pid, 0, 0); /* a group stop lasts until SIGCONT */
	} else {
		if (event == PTRACE_EVENT_EXEC && strcmp(one->name, "0") == 0)
			started = true;
		if (event == PTRACE_EVENT_EXEC && traces_itself(one->pid))
			let_go(one, 0);
		else
			go_on(one, event ? 0 : number);
	}
}

static pid_t start_command(char **command)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK |
			     PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	int gate[2];
	pid_t pid;
	char byte = 0;

	if (pipe(gate) < 0)
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(gate[1]);
		fclose(out);
		if (read(gate[0], &byte, 1) == 1) {
			close(gate[0]);
			execvp(command[0], command);
			perror(command[0]);
		}
		_exit(126);
	}
	close(gate[0]);
	if (ptrace(PTRACE_SEIZE, pid, 0, options) < 0)
		die("PTRACE_SEIZE");
	if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
		die("PTRACE_INTERRUPT");
	strcpy(find_or_add(pid)->name, "0");
	if (write(gate[1], &byte, 1) != 1)
		die("write");
	close(gate[1]);
	return pid;
}

static void trace(pid_t command)
{
	while (end_status < 0) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);
		struct tracee *one;

		if (pid < 0)
			die("waitpid");
		if (WIFSTOPPED(status)) {
			at_stop(find_or_add(pid), status);
			continue;
		}
		one = find(pid);
		if (one)
			one->pid = 0;
		if (pid == command) {
			end_status = status;
			fprintf(out, "end\t%d\n", end_status);
			fflush(out);
		}
	}
	/* What the command leaves running belongs to the caller, untraced. */
	if (!follow)
		let_all_go();
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);

		if (pid < 0)
			return; /* ECHILD: nothing is traced any more */
		if (WIFSTOPPED(status))
			at_stop(find_or_add(pid), status);
		else if (find(pid))
			find(pid)->pid = 0;
	}
}

static void read_arguments(char **at)
{
	static const char *const targets[] = { "command", "caller", "all" };

	if (at[0] && strcmp(at[0], "list") == 0 && at[1] && strcmp(at[1], "--") == 0)
		return;
	if (!at[0] || !at[1] || !at[2] || !at[3] || !at[4])
		exit(124);
	if (strcmp(at[0], "fail") == 0) {
		action = FAIL;
		wanted_errno = atoi(at[1]);
	}
	if (strcmp(at[0], "hold") == 0)
		action = HOLD;
	if (strcmp(at[0], "interrupt") == 0)
		action = INTERRUPT;
	for (int i = 0; i < 3; i++)
		if (strcmp(at[0], "kill") == 0 && strcmp(at[1], targets[i]) == 0)
			action = (enum action)(KILL_COMMAND + i);
	wanted_name = at[2];
	by_number = strcmp(at[4], "--") != 0;
	if (by_number)
		wanted_number = strtoul((++at)[2], NULL, 10);
	wanted_call = strtoul(at[3], NULL, 10);
	if (action == LIST || (action == FAIL && !by_number) || wanted_call == 0 ||
	    wanted_number >= MOST_NUMBERS)
		exit(124);
}

/* Close the command's descriptors here, so that a reader sees end of file when the command exits. */
static void close_inherited(void)
{
	for (int fd = 3; fd < 1024; fd++)
		if (fd != fileno(out))
			close(fd);
}

int main(int argc, char *argv[])
{
	pid_t command;
	int first = 0;

	for (int i = 1; i < argc && !first; i++)
		if (strcmp(argv[i], "--") == 0)
			first = i + 1;
	if (argc < 4 || !first || first >= argc) {
		fprintf(stderr, "usage: see the source\n");
		return 124;
	}
	out = fopen(argv[1], "we");
	if (!out)
		die(argv[1]);
	follow = strcmp(argv[2], "follow") == 0;
	read_arguments(argv + (follow ? 3 : 2));
	command = start_command(argv + first);
	close_inherited();
	trace(command);
	fclose(out);
	return 0;
}
