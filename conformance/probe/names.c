/* names.c: names of errors and signals, which a static C library may not have. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	int number;
	const char *name;
} errors[] = {
    {0, "ok"},
    {E2BIG, "E2BIG"},
    {EACCES, "EACCES"},
    {EAGAIN, "EAGAIN"},
    {EBADF, "EBADF"},
    {EBUSY, "EBUSY"},
    {ECHILD, "ECHILD"},
    {ECONNREFUSED, "ECONNREFUSED"},
    {EEXIST, "EEXIST"},
    {EFAULT, "EFAULT"},
    {EINTR, "EINTR"},
    {EINVAL, "EINVAL"},
    {EIO, "EIO"},
    {EISDIR, "EISDIR"},
    {ELOOP, "ELOOP"},
    {EMFILE, "EMFILE"},
    {ENODEV, "ENODEV"},
    {ENOENT, "ENOENT"},
    {ENOEXEC, "ENOEXEC"},
    {ENOMEM, "ENOMEM"},
    {ENOSPC, "ENOSPC"},
    {ENOSYS, "ENOSYS"},
    {ENOTDIR, "ENOTDIR"},
    {ENOTEMPTY, "ENOTEMPTY"},
    {ENOTTY, "ENOTTY"},
    {ENXIO, "ENXIO"},
    {EOPNOTSUPP, "EOPNOTSUPP"},
    {EOVERFLOW, "EOVERFLOW"},
    {EPERM, "EPERM"},
    {EPIPE, "EPIPE"},
    {EROFS, "EROFS"},
    {ESRCH, "ESRCH"},
    {ETXTBSY, "ETXTBSY"},
    {EXDEV, "EXDEV"},
};

static const struct {
	int number;
	const char *name;
} signals[] = {
    {SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGCHLD, "CHLD"},   {SIGCONT, "CONT"},
    {SIGHUP, "HUP"},   {SIGINT, "INT"},	  {SIGIO, "IO"},       {SIGKILL, "KILL"},
    {SIGPIPE, "PIPE"}, {SIGPWR, "PWR"},	  {SIGQUIT, "QUIT"},   {SIGSEGV, "SEGV"},
    {SIGSTOP, "STOP"}, {SIGTERM, "TERM"}, {SIGTSTP, "TSTP"},   {SIGTTIN, "TTIN"},
    {SIGURG, "URG"},   {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},   {SIGWINCH, "WINCH"},
};

const char *error_name(int error)
{
	static char unnamed[32];
	for (size_t i = 0; i < LENGTH(errors); i++)
		if (errors[i].number == error)
			return errors[i].name;
	snprintf(unnamed, sizeof(unnamed), "errno %d", error);
	return unnamed;
}

int signal_number(const char *name)
{
	for (size_t i = 0; i < LENGTH(signals); i++)
		if (strcmp(signals[i].name, name) == 0)
			return signals[i].number;
	return atoi(name);
}
