/* Interface of thaw.c: start a program from a snapshot instead of the interpreter. */
#ifndef SNAPSHOT_THAW_H
#define SNAPSHOT_THAW_H

/*
 * Become the process that `path` is a snapshot of, with these arguments.  Returns only if that is
 * not possible, before anything of the caller has changed but its memory map: it can still execute
 * the interpreter.  `program`: its __main__.py, which must be that of the saved process.
 */
void thaw(const char *path, const char *program, char **arguments, char **environment);

#endif
