/* The two processes that hold a pod together, started by its monitor. */
#ifndef INIT_H
#define INIT_H

/*
 * First process of the pod's namespaces.  `control` is the read end of a pipe of which the monitor
 * alone has the other: a byte lets it go on, its end ends the pod.  Errors go to `report`.
 */
struct init {
	int control;
	int report;
	unsigned long namespaces; /* CLONE_NEW* */
	const char *hostname;	  /* "" for none */
};

/* Never returns. */
_Noreturn void be_init(const struct init *init);

/*
 * Waits until the process behind `watched`, a pidfd, has ended and no process is left in the
 * NULL-terminated `cgroups`, which it kills; `control` as above tells of the monitor's end.
 * Meanwhile the lock, a descriptor that nothing looks at, is held.  Never returns.
 */
_Noreturn void be_keeper(int watched, int control, char *const cgroups[]);

#endif
