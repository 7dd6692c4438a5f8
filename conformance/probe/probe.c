/*
 * probe ACTION [ARGUMENT]... [-- ACTION [ARGUMENT]...]...
 *
 * Actions are done one after the other; the process ends with status 0 after the
 * last.  120 and above are the probe's own troubles.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <stdio.h>
#include <string.h>

char *const *probe_argv;
int report_fd = 1;

static const struct {
	const char *name;
	action_function *act;
} actions[] = {
    {"append", do_append},   {"await", do_await},	  {"background", do_background},
    {"cat", do_cat},	     {"complain", do_complain},	  {"die", do_die},
    {"eat", do_eat},	     {"echo", do_echo},		  {"exec", do_exec},
    {"exit", do_exit},	     {"facts", do_facts},	  {"fork", do_fork},
    {"hook", do_hook},	     {"mkdir", do_mkdir},	  {"send", do_send},
    {"sleep", do_sleep},     {"symlink", do_symlink},	  {"syscall", do_syscall},
    {"syscall32", do_syscall32}, {"to", do_to},		  {"touch", do_touch},
    {"trap", do_trap},	     {"try", do_try},		  {"wait", do_wait},
    {"write", do_write},
};

static int act(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < LENGTH(actions); i++)
		if (strcmp(actions[i].name, argv[0]) == 0)
			return actions[i].act(argc - 1, argv + 1);
	fprintf(stderr, "probe: no action %s\n", argc > 0 ? argv[0] : "given");
	return 121;
}

int main(int argc, char **argv)
{
	char *words[256];
	int count = 0;
	remember_descriptors();
	/* A copy: argv itself is reported as it came. */
	for (int i = 1; i < argc && count < 255; i++)
		words[count++] = argv[i];
	words[count] = NULL;
	probe_argv = argv;
	for (int start = 0; start <= count;) {
		int end = start;
		while (end < count && strcmp(words[end], "--") != 0)
			end++;
		words[end] = NULL;
		int status = act(end - start, words + start);
		if (status >= 0)
			return status;
		start = end + 1;
	}
	return 0;
}
