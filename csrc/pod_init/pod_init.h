/* The two processes that hold a pod together, started by its monitor. */
#ifndef POD_INIT_H
#define POD_INIT_H

/*
 * Become the init of the pod's namespaces.  `control` is the read end of a pipe whose
 * write end only the monitor has: a byte lets the process continue, end of file ends the pod.
 * `report` gets "ready" at the end of the setup, or the call that failed and its errno.
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
 * Become the lock holder: wait until the process behind the pidfd `watched` has ended and the
 * NULL-terminated `cgroups`, whose processes it kills, are empty; end of file of `control`
 * reports the monitor's exit.  The inherited lock descriptor is held meanwhile.  Never returns.
 */
_Noreturn void be_lock_holder(int watched, int control, char *const cgroups[]);

#endif
