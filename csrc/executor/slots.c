/* Slots: numbered descriptors that one operation opens and a later operation uses. */
#include "executor.h"

#include <errno.h>

/* Return the storage for a descriptor, -1 if it is empty; NULL if there is no such slot. */
int *slot_of(struct executor *x, uint32_t slot)
{
	if (slot < SLOTS)
		return &x->slots[slot];
	errno = EBADSLT;
	(void)fail(x, "read", "slot");
	return NULL;
}

/* Return the descriptor in a slot; fail if the slot is empty. */
int open_slot(struct executor *x, uint32_t slot)
{
	const int *fd = slot_of(x, slot);

	if (!fd || *fd >= 0)
		return fd ? *fd : -1;
	errno = EBADSLT;
	return fail(x, "read", "slot");
}
