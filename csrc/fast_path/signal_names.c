/* Parse a signal: a number, or a common name in any case with or without SIG. */
#include "fast_path.h"

#include <signal.h>
#include <string.h>

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

/* Return the text after the prefix `start` (in capitals; the case is ignored), or NULL. */
static const char *behind(const char *text, const char *start)
{
	for (; *start; text++, start++)
		if (*text != *start && (*text < 'a' || *text > 'z' || *text - 'a' + 'A' != *start))
			return NULL;
	return text;
}

static int decimal(const char *text)
{
	unsigned long long number;

	return strlen(text) <= 2 && read_decimal(&text, &number) && *text == '\0' &&
			       number <= HIGHEST ?
		       (int)number :
		       -1;
}

int signal_number(const char *text)
{
	const char *end;

	if (text[0] >= '0' && text[0] <= '9')
		return decimal(text);
	end = behind(text, "SIG");
	if (end)
		text = end;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		end = behind(text, signals[i].name);
		if (end && *end == '\0')
			return signals[i].number;
	}
	return -1;
}
