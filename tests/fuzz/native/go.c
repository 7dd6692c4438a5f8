/*
 * The answers that the executor waits for: any message is GO with all the descriptors that it
 * announces, or SKIP, or ends the executor.  The first byte is the number of descriptors.
 */
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static jmp_buf ended;

_Noreturn static void end_instead(int status)
{
	longjmp(ended, status);
}

#define _exit end_instead
#include "report.c"
#undef _exit

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

static unsigned int count_descriptors(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void send_all(int fd, const unsigned char *data, size_t size, unsigned int count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int[2 * GO_FILES]))];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	int fds[2 * GO_FILES];

	if (count > 0) {
		for (unsigned int i = 0; i < count; i++)
			fds[i] = fd;
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)size)
		abort();
}

static void check(const struct go_files *files, unsigned int sent, const struct message *head)
{
	if (files->count > GO_FILES)
		abort();
	if (!files->lost && (files->count != sent || head->value != sent))
		abort();
	for (unsigned int i = 0; i < files->count; i++)
		close(files->fds[i]);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size)
{
	static struct executor x;
	struct message head = { 0 };
	struct go_files files = { 0 };
	volatile bool has_ended = false; /* the executor exits with what it has received */
	unsigned int count = size ? input[0] % (2 * GO_FILES) : 0, before = count_descriptors();
	int ends[2];

	if (size < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return 0;
	input++;
	size--;
	memcpy(&head, input, size < MESSAGE_SHORT ? size : MESSAGE_SHORT);
	send_all(ends[1], input, size, count);
	if (setjmp(ended) == 0) {
		await_go_with(ends[0], &files);
		if (head.kind != MESSAGE_GO || size < MESSAGE_SHORT)
			abort();
		check(&files, count, &head);
	} else if (size >= MESSAGE_SHORT && head.kind == MESSAGE_GO) {
		abort();
	} else {
		has_ended = true;
	}
	/* Without descriptors, as for a mount that was presented. */
	send_all(ends[1], input, size, 0);
	x.sync_fd = ends[0];
	if (setjmp(ended) == 0 && present_mount(&x, -1) == 0 && head.kind != MESSAGE_SKIP)
		abort();
	fail_detail(&x, "call", (const char *)"argument", "detail");
	report_failure(&x);
	close(ends[0]);
	close(ends[1]);
	if (has_ended)
		(void)syscall(SYS_close_range, ends[1], ~0u, 0);
	else if (count_descriptors() != before)
		abort();
	return 0;
}
