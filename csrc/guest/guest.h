/*
 * The guest agent, which runs in a kvm pod's virtual machine: one static program, process 1 of its
 * kernel.  On the host the same program is the proxy of an app.
 *
 * All it needs is in its initial file system, made by ociruntime/pods/kvm:
 *
 *   /modules/0, 1, ...   kernel modules, in the order in which they are loaded
 *   /shares              names of the host's directories, one a line; each is mounted at /share/NAME
 *   /hostname
 *   /network             see network.c
 *   /apps/0, 1, ...      the apps (see app.c); app N is controlled over port N + 2
 *
 * Port 1 controls the machine: it powers off once the host writes to the port or closes it.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * A frame on an app's port: a byte for its kind, the size in two bytes (little-endian), the data.  A
 * frame of kind 0 is a single byte that is ignored: enough of them complete a truncated frame.
 *
 *   to the guest:    s  start the app             i  bytes for its stdin    c  close its stdin
 *                    k  send it a signal: a byte  d  kill it; the frame is returned afterwards
 *   to the host:     r  the app runs              f  why it could not be started
 *                    o  bytes from its stdout     e  bytes from its stderr
 *                    x  its wait status, 4 bytes  d  the frame that is returned
 */
#define FRAME_HEAD 3
#define FRAME_MOST 4096

struct frame {
	unsigned char kind;
	size_t size;
	unsigned char bytes[FRAME_MOST];
};

/* Received bytes, from which frames are parsed. */
struct incoming {
	size_t held;
	unsigned char bytes[2 * (FRAME_HEAD + FRAME_MOST)];
};

/* Write the whole frame; return false if the other end is closed. */
bool send_frame(int fd, unsigned char kind, const void *bytes, size_t size);

/* Read the available bytes; return false at the end of the stream. */
bool receive(int fd, struct incoming *incoming);

/* Take the next frame from the received bytes; return false if none is complete. */
bool next_frame(struct incoming *incoming, struct frame *frame);

/* A running app; the descriptors are the agent's ends of its pipes, -1 when closed. */
struct app {
	const char *path; /* of its description */
	char cgroup[288];
	pid_t pid;
	int input, output, errors;
};

/* Start the app; on failure return false, with the reason in `why`. */
bool start_app(struct app *app, char *why, size_t room);

/* Execute the app's program: called in its process, after its streams are in place. */
_Noreturn void become_app(char *text, size_t size, int report);

/* Create the cgroup; write a value to one of its files.  Both return true on success. */
bool make_cgroup(const char *cgroup);
bool write_cgroup(const char *cgroup, const char *file, const char *text);

/* Kill all processes of the cgroup, and wait until none is left. */
void empty_cgroup(const char *cgroup);

/* Serve one app's port to the host; never returns. */
_Noreturn void serve_app(unsigned number);

/* Return the record after `at` in the description of an app (see become.c). */
const char *next_record(const char *at);

/* Set the addresses and routes in `lines` (see network.c); on failure return false, with errno. */
bool set_up_network(char *lines);

/* Run the app's proxy on the host; returns when the machine has ended. */
int run_proxy(void);

/* Return the whole file, followed by a NUL; NULL if it cannot be read. */
char *read_whole(const char *path, size_t *size);

bool write_text(const char *path, const char *text);

#endif
