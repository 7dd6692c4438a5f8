/* Start the executor, for Python. */
#ifndef SPAWN_EXECUTOR_H
#define SPAWN_EXECUTOR_H

/* The parameters of one start of the executor. */
struct oci_spawn {
	int executor_fd;	   /* the executor's program, a sealed memfd */
	int plan_fd;		   /* the plan, a memfd */
	int sync_fd;		   /* the executor's end of the socket pair */
	int init_fd;		   /* start gate, or pidfd of the process to join */
	int cgroup_fd;		   /* v2 cgroup directory to start in, or -1 */
	int times_fd;		   /* memfd for the start times of operations, or -1 */
	int streams[3];		   /* become the executor's descriptors 0, 1 and 2 */
	unsigned long clone_flags; /* CLONE_NEW* */
	unsigned long ignored;	   /* signals to reset to their default, 1 << (number - 1) */
	int pid;		   /* out */
	int pidfd;		   /* out */
	const char *failed;	   /* out: the call that failed */
};

/* Start the executor; returns 0, or -errno with `failed` set. */
int oci_spawn(struct oci_spawn *spawn);

#endif
