/* Messages between the executor and the host: ociruntime/runtime/executor/protocol.py. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* A failure message; shorter ones end after `error`. */
struct message {
	uint32_t kind;	    /* MESSAGE_* */
	uint32_t value;	    /* stage, or the operation's index in the plan */
	int32_t pid;
	int32_t error;	    /* errno, or a wait status for a hook */
	char call[32];	    /* system call */
	char argument[512]; /* object of the call, such as a path */
	char detail[3072];  /* text from the kernel or a hook */
};

#define MESSAGE_SHORT offsetof(struct message, call)

#endif
