/* Interface of thaw.c: start a program from a snapshot instead of the interpreter. */
#ifndef SNAPSHOT_THAW_H
#define SNAPSHOT_THAW_H

/*
 * Turn this process into the one that was saved in the snapshot `path`, with these arguments.
 * Returns only if that is not possible; the caller can then still execute the interpreter, since
 * only its memory map has changed.  `program` is the __main__.py, which must be the saved process's.
 */
void thaw(const char *path, const char *program, char **arguments, char **environment);

#endif
