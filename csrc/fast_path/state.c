/*
 * `state`: print the document that `create` has written, with the current pid and status;
 * ociruntime/runtime/spec/state_document.py defines its members.
 */
#include "fast_path.h"
#include "text.h"

#include <stdint.h>
#include <sys/stat.h>

static const char *const words[] = {
	[STATUS_CREATED] = "created",
	[STATUS_RUNNING] = "running",
	[STATUS_PAUSED] = "paused",
	[STATUS_STOPPED] = "stopped",
};

int answer_state(struct container *container)
{
	static char data[RECORD_SIZE + 64];
	struct text text = text_in(data, sizeof(data));
	const struct record *record = &container->record;
	enum status status = find_status(container);
	struct stat found;

	/* The document contains the owner's name. */
	if (status == STATUS_UNKNOWN || fstat(container->fd, &found) < 0 ||
	    found.st_uid != record->owner)
		return FALL_BACK;
	text_add(&text, record->head);
	text_add_number(&text, status == STATUS_STOPPED ? 0 : (uint32_t)record->pid, 10);
	text_add(&text, record->middle);
	text_add(&text, words[status]);
	text_add(&text, record->tail);
	return text.whole ? write_out(text.data, text.used) : FALL_BACK;
}
