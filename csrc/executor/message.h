/* What the executor and the host say to each other: ociruntime/runtime/executor/protocol.py. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* What is sent for a failure; shorter messages end after `error`. */
struct message {
	uint32_t kind;	    /* MESSAGE_* */
	uint32_t value;	    /* stage, or the operation's place in the plan */
	int32_t pid;
	int32_t error;	    /* errno, or a wait status for a hook */
	char call[32];	    /* system call */
	char argument[512]; /* what it was applied to */
	char detail[3072];  /* the kernel's or a hook's own words */
};

#define MESSAGE_SHORT offsetof(struct message, call)

#endif
