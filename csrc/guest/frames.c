/* Read and write frames on a port, a byte stream whose other end may disconnect and reconnect. */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool write_all(int fd, const unsigned char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		bytes += done;
		size -= (size_t)done;
	}
	return true;
}

bool send_frame(int fd, unsigned char kind, const void *bytes, size_t size)
{
	unsigned char whole[FRAME_HEAD + FRAME_MOST];

	if (size > FRAME_MOST)
		size = FRAME_MOST;
	whole[0] = kind;
	whole[1] = (unsigned char)(size & 0xff);
	whole[2] = (unsigned char)(size >> 8);
	if (size > 0)
		memcpy(whole + FRAME_HEAD, bytes, size);
	return write_all(fd, whole, FRAME_HEAD + size);
}

bool receive(int fd, struct incoming *incoming)
{
	size_t room = sizeof(incoming->bytes) - incoming->held;
	ssize_t got = read(fd, incoming->bytes + incoming->held, room);

	if (got < 0)
		return errno == EINTR || errno == EAGAIN;
	incoming->held += (size_t)got;
	return got > 0;
}

static void drop(struct incoming *incoming, size_t size)
{
	incoming->held -= size;
	memmove(incoming->bytes, incoming->bytes + size, incoming->held);
}

bool next_frame(struct incoming *incoming, struct frame *frame)
{
	size_t blank = 0;

	while (blank < incoming->held && incoming->bytes[blank] == 0)
		blank++;
	drop(incoming, blank);
	if (incoming->held < FRAME_HEAD)
		return false;
	frame->kind = incoming->bytes[0];
	frame->size = incoming->bytes[1] | (size_t)incoming->bytes[2] << 8;
	if (frame->size > FRAME_MOST)
		frame->size = FRAME_MOST;
	if (incoming->held < FRAME_HEAD + frame->size)
		return false;
	memcpy(frame->bytes, incoming->bytes + FRAME_HEAD, frame->size);
	drop(incoming, FRAME_HEAD + frame->size);
	return true;
}
