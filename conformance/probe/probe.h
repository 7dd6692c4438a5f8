/*
 * probe: the only program in the test containers, and their hook.
 *
 * Everything it reports is one JSON object on one line.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* json.c: one object at a time, written by one write(2) at its end */
void put_open(const char *key, char bracket);
void put_close(char bracket);
void put_number(const char *key, long long value);
void put_unsigned(const char *key, unsigned long long value);
void put_text(const char *key, const char *value);
void put_bytes(const char *key, const char *value, size_t length);
void put_texts(const char *key, char *const *values);
void put_error(const char *key, int error);
void put_end(int fd);

/* names.c */
const char *error_name(int error);
int signal_number(const char *name);

/* facts_*.c: each group adds members to the object that is open */
void remember_descriptors(void);
void put_identity(void);
void put_credentials(void);
void put_limits(void);
void put_signals(void);
void put_descriptors(void);
void put_terminal(void);
void put_namespaces(void);
void put_system(void);
void put_scheduling(void);
void put_memory_policy(void);
void put_interfaces(void);
void put_surroundings(char *const *argv);
/* words: stat=PATH read=PATH list=PATH open=MODE:PATH; %p becomes pid */
void put_asked(char *const *words, int count, const char *pid);

/* actions: status to exit with, or -1 to go on with the next one */
typedef int action_function(int argc, char **argv);
action_function do_facts, do_hook, do_sleep, do_exit, do_die, do_trap, do_await, do_echo,
    do_complain, do_touch, do_append, do_write, do_mkdir, do_symlink, do_cat, do_wait, do_to,
    do_exec, do_fork, do_background, do_try, do_syscall, do_syscall32, do_send, do_eat;

extern char *const *probe_argv;
extern int report_fd;

#endif
