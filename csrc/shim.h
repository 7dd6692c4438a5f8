/* The few system calls that Python cannot make itself. */
#ifndef SHIM_H
#define SHIM_H

/* One start of the executor.  -1 stands for "none" in cgroup_fd. */
struct oci_spawn {
	int executor_fd;	   /* its program, a sealed memory file */
	int plan_fd;		   /* the plan, read by it */
	int sync_fd;		   /* its end of the socket pair */
	int gate_fd;		   /* listening socket of the start gate */
	int cgroup_fd;		   /* v2 directory to be born in, or -1 */
	unsigned long clone_flags; /* CLONE_NEW* */
	int pid;		   /* out */
	int pidfd;		   /* out */
	const char *failed;	   /* out: the call that failed */
};

/* 0, or -errno with `failed` set. */
int oci_spawn(struct oci_spawn *spawn);

/* bpf(2): its result, or -errno. */
long oci_bpf(int command, void *attributes, unsigned int size);

/* prctl(2) with integer arguments: its result, or -errno. */
int oci_prctl(int option, unsigned long argument);

#endif
