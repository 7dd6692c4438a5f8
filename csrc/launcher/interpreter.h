/* Start a program of the package from its snapshot or with the interpreter. */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include <stdbool.h>

struct program {
	const char *name; /* prefix of its error messages */
	const char *file; /* the script to run, in the package's directory */
	int failure;	  /* exit status if it cannot start */
	const char *snapshot; /* its snapshot in the directory of ociruntime/startup/snapshot.py */
	bool unblocks_interrupt; /* the script unblocks SIGINT */
};

/* Check the environment; print the reason and return false if it is not safe to start. */
bool may_run(const struct program *program);

/*
 * Returns only on failure, with the exit status. failure_fd: a descriptor for the interpreter's
 * --failure-fd, or -1.
 */
int become_interpreter(const struct program *program, int argc, char *argv[], int failure_fd);

#endif
