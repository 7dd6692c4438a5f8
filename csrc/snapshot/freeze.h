/* Interface of freeze.c to Python: write a snapshot of this process; in a process started from a
 * snapshot, read its arguments. */
#ifndef SNAPSHOT_FREEZE_H
#define SNAPSHOT_FREEZE_H

/*
 * Write a snapshot of this process to `out`; `program` is the __main__.py of the program, `watched` a list
 * of files, ended by NULL, whose change makes it stale.  Returns 0, or 1 in each process started from
 * the snapshot.  On failure returns -errno: -ENOSYS if the processor or the C library is not
 * supported, -EBUSY if the kernel writes to this process's memory (rseq).
 */
int oci_freeze(int out, const char *program, const char *const *watched);

/* Return the arguments of this process, started from a snapshot; the list ends with NULL. */
const char *const *oci_thawed_arguments(void);
const char *const *oci_thawed_environment(void);
unsigned long oci_thawed_ignored_signals(void); /* 1 << (number - 1) */

#endif
