/*
 * Parse the command line in the spellings that engines use.  Any other spelling, even if it is
 * valid (ociruntime/commandline/parser.py), is left to the interpreter.
 */
#include "fast_path.h"

#include <string.h>

static const char *const verbs[] = {
	[VERB_STATE] = "state",
	[VERB_START] = "start",
	[VERB_KILL] = "kill",
	[VERB_DELETE] = "delete",
	[VERB_PAUSE] = "pause",
	[VERB_RESUME] = "resume",
	[VERB_PS] = "ps",
};

static bool equal(const char *text, const char *other)
{
	return strcmp(text, other) == 0;
}

static bool find_verb(const char *word, enum verb *verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (!equal(word, verbs[i]))
			continue;
		*verb = (enum verb)i;
		return true;
	}
	return false;
}

/*
 * Return the value of `--name VALUE` or `--name=VALUE` at **at and advance *at past it; NULL if
 * the argument at **at is not this option or has no value.
 */
static const char *option_value(char *const **at, const char *name)
{
	const char *word = **at;
	size_t length = strlen(name);

	if (strncmp(word, name, length) != 0)
		return NULL;
	if (word[length] == '=') {
		*at += 1;
		return word + length + 1;
	}
	if (word[length] != '\0' || !(*at)[1])
		return NULL;
	*at += 2;
	return (*at)[-1];
}

static bool read_global_option(char *const **at, struct request *request)
{
	const char *value;

	if (equal(**at, "--systemd-cgroup")) {
		*at += 1;
		return true;
	}
	value = option_value(at, "--root");
	if (value) {
		request->root = value;
		return value[0] != '\0';
	}
	value = option_value(at, "--log");
	if (value) {
		request->log = value[0] ? value : NULL;
		return true;
	}
	value = option_value(at, "--log-format");
	if (value)
		return equal(value, "text") || equal(value, "json");
	value = option_value(at, "--cgroup-manager");
	return value && equal(value, "cgroupfs");
}

static bool is_force(const struct request *request, const char *word)
{
	return request->verb == VERB_DELETE && (equal(word, "--force") || equal(word, "-f"));
}

/* The options of `ps` come before the id; the options after the id are those of ps(1). */
static bool read_format(char *const **at, struct request *request)
{
	const char *value = option_value(at, equal(**at, "-f") ? "-f" : "--format");

	request->json = value && equal(value, "json");
	return request->json;
}

bool read_arguments(int argc, char *const argv[], struct request *request)
{
	char *const *at = argv + 1;
	const char *signal_name = NULL;

	*request = (struct request){ 0 };
	if (argc < 3)
		return false;
	while (*at && **at == '-')
		if (!read_global_option(&at, request))
			return false;
	if (!*at || !find_verb(*at, &request->verb))
		return false;
	at++;
	while (request->verb == VERB_PS && *at && **at == '-')
		if (!read_format(&at, request))
			return false;
	if (request->verb == VERB_PS && !request->json)
		return false;
	for (; *at; at++) {
		if (is_force(request, *at))
			request->force = true;
		else if (**at == '-')
			return false;
		else if (!request->id)
			request->id = *at;
		else if (request->verb == VERB_KILL && !signal_name)
			signal_name = *at;
		else
			return false;
	}
	/*
	 * Without the option an annotation may name the systemd cgroup, and the record has no
	 * annotations.
	 */
	if (request->verb == VERB_KILL)
		request->signal = signal_name ? signal_number(signal_name) : -1;
	return request->id && is_plain_id(request->id) && request->signal >= 0;
}
