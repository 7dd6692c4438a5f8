/*
 * The snapshot of a warm interpreter: one file, written by freeze.c, mapped back by thaw.c.
 *
 *     head     struct snapshot_head, of which `head_size` bytes are used
 *     pages    from the next page boundary on, in the order of the regions that name them
 *
 * A region is a range of the saved process's memory.  Its content comes from the file that was
 * mapped there (code and constants), from the snapshot (pages that were written to) or is zero.
 * Memory that a child process does not inherit (MADV_WIPEONFORK) is zero, too: the C library keeps
 * the state of getrandom(3) there, and processes that shared it would draw the same numbers.
 *
 * Most pages that a command writes to belong to the heap.  One copy of it into huge pages costs less
 * than a fault and a copy for each of 600 small pages; `heap` is the range of huge pages that contains
 * it and nothing else.  Clearing another huge page for a short end of the heap would cost more than
 * the faults there, so up to SNAPSHOT_TAIL bytes are left out of `heap`.  If the kernel has no free
 * huge pages, all regions are mapped like those outside `heap`.
 *
 * On some machines, such as User-Mode Linux, a fault takes as long as copying many pages.  freeze.c
 * measures this, and there thaw.c copies all regions that commands may write to (CONTENT_COPIED), and
 * maps all pages of the others at once.
 *
 * Integers have the byte order of the machine that wrote the file, which is valid for one boot only.
 */
#ifndef SNAPSHOT_FORMAT_H
#define SNAPSHOT_FORMAT_H

#include <stdint.h>

#define SNAPSHOT_MAGIC 0x31504e5349434fULL /* "OCISNP1" */

enum {
	SNAPSHOT_FORMAT = 9, /* increment it with every change of this file */
	SNAPSHOT_PAGE = 4096,
	SNAPSHOT_REGIONS = 512,
	SNAPSHOT_MAPPED = 96,
	SNAPSHOT_WATCHED = 512,
	SNAPSHOT_PATHS = 65536,
	SNAPSHOT_VDSO = 4,
	SNAPSHOT_SIGNALS = 8,
	SNAPSHOT_BOOT = 40,
	SNAPSHOT_HUGE = 2 << 20,
	SNAPSHOT_TAIL = 512 << 10,
	SNAPSHOT_LARGEST_HEAP = 16 << 20,
	SNAPSHOT_LEAST_STACK = 512 << 10,
};

/*
 * The file with the id of the current boot.  The vdso identifies the kernel, not the machine: code
 * that libraries chose for one processor would end with SIGILL on another machine that has booted
 * from the same disk.
 */
#define SNAPSHOT_BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Sources of a region's content; other values are indexes of `mapped`. */
enum { CONTENT_COPIED = -4, CONTENT_WIPED = -3, CONTENT_ZERO = -2, CONTENT_SNAPSHOT = -1 };

struct snapshot_region {
	uint64_t address;
	uint64_t size;
	uint64_t offset; /* in the file that the content comes from */
	int32_t content;
	uint32_t protection; /* PROT_* */
};

/* A file that must not have changed since the dump; its path begins at `path` in `paths`. */
struct snapshot_file {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	uint64_t modified; /* nanoseconds */
	uint32_t path;
	uint32_t unused;
};

struct snapshot_range {
	uint64_t address;
	uint64_t size;
};

/* A signal's action in the form of rt_sigaction(2). */
struct snapshot_signal {
	uint64_t number;
	uint64_t action[4];
};

/* Variables in the saved process's memory that thaw.c sets. */
struct snapshot_mailbox {
	int64_t argument_count;
	char **arguments;
	char **environment;
	uint64_t ignored; /* signals that the caller ignores, 1 << (number - 1) */
	uint64_t blocked; /* signals that the caller has blocked, in the same form */
};

struct snapshot_head {
	uint64_t magic;
	uint32_t format;
	uint32_t head_size;
	uint64_t checksum;  /* of the head, this member taken as 0 */
	uint64_t file_size; /* of the whole snapshot */
	uint64_t registers[8]; /* rbx rbp r12 r13 r14 r15 rsp rip */
	uint64_t thread_pointer;
	uint64_t thread_id; /* address */
	uint64_t robust_list;
	uint64_t robust_list_size;
	uint64_t mailbox; /* address */
	uint64_t vdso_checksum;
	uint32_t vdso_count;
	uint32_t signal_count;
	uint32_t region_count;
	uint32_t mapped_count;
	uint32_t watched_count;
	uint32_t program; /* offset in `paths`: the __main__.py of the saved process */
	char boot[SNAPSHOT_BOOT]; /* without the line feed, padded with NUL */
	struct snapshot_range heap; /* of size 0 if there is no such range */
	struct snapshot_range stack_room; /* below the stack, for its growth; in no region */
	struct snapshot_range vdso[SNAPSHOT_VDSO]; /* the code last, as the kernel lays them out */
	struct snapshot_signal signals[SNAPSHOT_SIGNALS];
	struct snapshot_region regions[SNAPSHOT_REGIONS];
	struct snapshot_file mapped[SNAPSHOT_MAPPED];
	struct snapshot_file watched[SNAPSHOT_WATCHED];
	char paths[SNAPSHOT_PATHS];
};

/* Return the FNV-1a hash of `size` bytes as 64-bit words; `size` must be a multiple of 8. */
static inline uint64_t snapshot_checksum(const void *data, uint64_t size)
{
	const uint64_t *word = data;
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (uint64_t i = 0; i < size / sizeof(*word); i++)
		sum = (sum ^ word[i]) * 0x100000001b3ULL;
	return sum;
}

#endif
