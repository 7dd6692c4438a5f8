/*
 * Frames between a virtual machine and the host: however the bytes are cut into pieces, the same
 * frames are read, and none is larger than its buffer.  The first byte is the size of the pieces.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

/* Return the frame at `at` of the whole input and the place after it; NULL if none is complete. */
static const unsigned char *expected(const unsigned char *at, const unsigned char *end,
				     struct frame *frame)
{
	while (at < end && *at == 0)
		at++;
	if (end - at < FRAME_HEAD)
		return NULL;
	frame->kind = at[0];
	frame->size = at[1] + 256u * at[2];
	if (frame->size > FRAME_MOST)
		frame->size = FRAME_MOST;
	if ((size_t)(end - at) < FRAME_HEAD + frame->size)
		return NULL;
	memcpy(frame->bytes, at + FRAME_HEAD, frame->size);
	return at + FRAME_HEAD + frame->size;
}

/* What is sent is read again. */
static void send_again(const struct frame *frame)
{
	static struct incoming incoming;
	static struct frame again;
	int ends[2];

	if (frame->kind == 0)
		return;
	memset(&incoming, 0, sizeof(incoming));
	if (pipe(ends) < 0 || !send_frame(ends[1], frame->kind, frame->bytes, frame->size) ||
	    !receive(ends[0], &incoming) || !next_frame(&incoming, &again))
		abort();
	if (again.kind != frame->kind || again.size != frame->size ||
	    memcmp(again.bytes, frame->bytes, frame->size) != 0)
		abort();
	close(ends[0]);
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size)
{
	struct incoming *incoming = calloc(1, sizeof(*incoming));
	struct frame *frame = calloc(1, sizeof(*frame)), *wanted = calloc(1, sizeof(*wanted));
	const unsigned char *end = input + size, *at, *sent;
	size_t piece;
	int ends[2];

	if (!incoming || !frame || !wanted || pipe(ends) < 0)
		abort();
	piece = size ? 1 + 16u * input[0] : 1;
	at = sent = input + (size > 0);
	while (sent < end) {
		size_t part = (size_t)(end - sent) < piece ? (size_t)(end - sent) : piece;

		if (write(ends[1], sent, part) != (ssize_t)part)
			abort();
		sent += part;
		while (part > 0) {
			size_t before = incoming->held;

			if (!receive(ends[0], incoming) || incoming->held <= before)
				abort();
			part -= incoming->held - before;
			while (next_frame(incoming, frame)) {
				at = expected(at, sent - part, wanted);
				if (!at || frame->kind != wanted->kind || frame->size != wanted->size ||
				    memcmp(frame->bytes, wanted->bytes, frame->size) != 0)
					abort();
				send_again(frame);
			}
		}
	}
	if (expected(at, end, wanted))
		abort();
	close(ends[0]);
	close(ends[1]);
	free(incoming);
	free(frame);
	free(wanted);
	return 0;
}
