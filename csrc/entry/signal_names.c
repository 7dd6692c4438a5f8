/* Signals as callers write them: a number, or a common name in any case with or without SIG. */
#include "entry.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

enum { HIGHEST = 64 };

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP },	 { "INT", SIGINT },   { "QUIT", SIGQUIT }, { "ILL", SIGILL },
	{ "TRAP", SIGTRAP },	 { "ABRT", SIGABRT }, { "BUS", SIGBUS },   { "FPE", SIGFPE },
	{ "KILL", SIGKILL },	 { "USR1", SIGUSR1 }, { "SEGV", SIGSEGV }, { "USR2", SIGUSR2 },
	{ "PIPE", SIGPIPE },	 { "ALRM", SIGALRM }, { "TERM", SIGTERM }, { "CHLD", SIGCHLD },
	{ "CONT", SIGCONT },	 { "STOP", SIGSTOP }, { "TSTP", SIGTSTP }, { "TTIN", SIGTTIN },
	{ "TTOU", SIGTTOU },	 { "URG", SIGURG },   { "XCPU", SIGXCPU }, { "XFSZ", SIGXFSZ },
	{ "VTALRM", SIGVTALRM }, { "PROF", SIGPROF }, { "IO", SIGIO },	   { "PWR", SIGPWR },
	{ "WINCH", SIGWINCH },	 { "SYS", SIGSYS },
};

static int decimal(const char *text)
{
	int number = 0;

	for (; *text; text++) {
		if (*text < '0' || *text > '9' || number > HIGHEST)
			return -1;
		number = number * 10 + (*text - '0');
	}
	return number <= HIGHEST ? number : -1;
}

int signal_number(const char *text)
{
	if (text[0] >= '0' && text[0] <= '9')
		return strlen(text) <= 2 ? decimal(text) : -1;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (strcasecmp(text, signals[i].name) == 0)
			return signals[i].number;
	return -1;
}
