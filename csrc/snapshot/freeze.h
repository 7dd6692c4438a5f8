/* Interface of freeze.c to Python: write a snapshot of this process, and read back what a process
 * started from one was given. */
#ifndef SNAPSHOT_FREEZE_H
#define SNAPSHOT_FREEZE_H

/*
 * Write a snapshot of this process to `out`; `program` is the __main__.py of the program, `watched` a list
 * of files, ended by NULL, whose change makes it stale.  Returns 0; 1 in each process started from
 * the snapshot; -errno, -ENOSYS on processors and C libraries without support, -EBUSY if the kernel
 * writes to this process's memory (rseq).
 */
int oci_freeze(int out, const char *program, const char *const *watched);

/* In a process started from a snapshot: its own, ended by NULL. */
const char *const *oci_thawed_arguments(void);
const char *const *oci_thawed_environment(void);
unsigned long oci_thawed_ignored_signals(void); /* 1 << (number - 1) */

#endif
