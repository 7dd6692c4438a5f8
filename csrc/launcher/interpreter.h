/* How a program of the package starts. */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include <stdbool.h>

struct program {
	const char *name; /* in front of its errors */
	const char *file; /* what the interpreter is to run, in the package's directory */
	int failure;	  /* exit status of one that could not begin */
	const char *snapshot; /* its snapshot in the directory of ociruntime/startup/snapshot.py */
};

/* Whether it is safe to begin; says why not. */
bool may_run(const struct program *program);

/*
 * Returns only if that failed, and then the exit status.  failure_fd: a descriptor for the
 * interpreter's --failure-fd, or -1.
 */
int become_interpreter(const struct program *program, int argc, char *argv[], int failure_fd);

#endif
