/*
 * Write a snapshot of the calling process (format.h), which then continues unchanged.
 *
 * The process must have a single thread and no open files, and must have been started with
 * GLIBC_TUNABLES=glibc.pthread.rseq=0 and LD_BIND_NOW=1.  Otherwise the kernel would write to an area
 * of restartable sequences (rseq) that the new process has not registered, and symbols that are bound
 * later would dirty pages.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "freeze.h"

#include "snapshot/format.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ociruntime/startup/snapshot.py reads the members at these offsets. */
_Static_assert(offsetof(struct snapshot_head, vdso_count) == 144, "");
_Static_assert(offsetof(struct snapshot_head, boot) == 168, "");
_Static_assert(offsetof(struct snapshot_head, mapped) == 17008, "");
_Static_assert(offsetof(struct snapshot_head, watched) == 20848, "");
_Static_assert(offsetof(struct snapshot_head, paths) == 41328, "");

static struct snapshot_mailbox mailbox;

const char *const *oci_thawed_arguments(void)
{
	return (const char *const *)mailbox.arguments;
}

const char *const *oci_thawed_environment(void)
{
	return (const char *const *)mailbox.environment;
}

unsigned long oci_thawed_ignored_signals(void)
{
	return mailbox.ignored;
}

#if defined(__x86_64__) && defined(__GLIBC__)
#include <asm/prctl.h>

/* Saving a gap of up to this many unwritten pages is cheaper than two more mappings. */
#define GAP_PAGES 64
#define STACK_ROOM (7UL << 20) /* below the saved part of the stack, for its growth */
#define RED_ZONE 256u
#define THREAD_SIZE 1024 /* bytes at the start of struct pthread, in which the id is */
#define MAPS_SIZE (1u << 20)
#define LARGEST_IN_HEAP (32 << 20) /* glibc's limit */
/*
 * A command writes to some 600 of the 1400 pages that could be copied.  So copying all of them is
 * quicker if a fault takes longer than copying 2.3 pages.  It takes 1 to 2 times as long as copying one
 * on real processors and in most virtual machines, 9 to 15 times in User-Mode Linux.
 */
#define SLOW_FAULT 4
#define MEASURED_PAGES 64
#define MEASURED_ROUNDS 5

extern char **environ;
extern void *__curbrk;
/* The size of the registered rseq area (glibc 2.35), 0 if there is none. */
extern const unsigned int __rseq_size __attribute__((weak));

/* Scratch memory of the dump, which is mapped only during the dump and not saved. */
struct dump {
	struct snapshot_head head;
	char maps[MAPS_SIZE];
	char page[SNAPSHOT_PAGE];
	uint32_t paths_used;
	uint64_t at; /* where the next page goes in the snapshot */
	uint64_t end; /* of the mapping before */
	uint64_t heap_used; /* the end of the part of the heap that the program has allocated */
	int out;
};

/* A mapping in /proc/self/smaps. */
struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	uint32_t protection;
	bool shared;
	bool wiped; /* in a child: MADV_WIPEONFORK */
	const char *path; /* "" for anonymous memory */
	int32_t file;	  /* index in `mapped`, or CONTENT_ZERO */
	int source;	  /* descriptor of that file, or -1 */
};

/* Save the registers.  Returns 0; returns again, with 1, in each process started from the snapshot. */
int oci_save_registers(uint64_t registers[8]) __attribute__((returns_twice));
__asm__(".text\n"
	".globl oci_save_registers\n"
	".hidden oci_save_registers\n"
	".type oci_save_registers,@function\n"
	"oci_save_registers:\n"
	"	mov %rbx, 0(%rdi)\n"
	"	mov %rbp, 8(%rdi)\n"
	"	mov %r12, 16(%rdi)\n"
	"	mov %r13, 24(%rdi)\n"
	"	mov %r14, 32(%rdi)\n"
	"	mov %r15, 40(%rdi)\n"
	"	lea 8(%rsp), %rdx\n"
	"	mov %rdx, 48(%rdi)\n"
	"	mov (%rsp), %rdx\n"
	"	mov %rdx, 56(%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size oci_save_registers,.-oci_save_registers\n");

static int add_path(struct dump *d, const char *path, uint32_t *offset)
{
	size_t size = strlen(path) + 1;

	errno = ENAMETOOLONG;
	if (size > SNAPSHOT_PATHS - d->paths_used)
		return -1;
	*offset = d->paths_used;
	memcpy(d->head.paths + d->paths_used, path, size);
	d->paths_used += (uint32_t)size;
	return 0;
}

static int add_file(struct dump *d, const char *path, struct snapshot_file *file)
{
	struct stat status;

	/*
	 * glibc has the symbol stat only since 2.33, and wheels must run with 2.28.  Its statx is
	 * refused by filters that do not know that call.
	 */
	if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) < 0)
		return -1;
	*file = (struct snapshot_file){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size = (uint64_t)status.st_size,
		.modified = (uint64_t)status.st_mtim.tv_sec * 1000000000 +
			    (uint64_t)status.st_mtim.tv_nsec,
	};
	return add_path(d, path, &file->path);
}

/* Return the index of a mapped file, adding the file if it is new; -1 with errno on failure. */
static int32_t mapped_file(struct dump *d, const char *path)
{
	struct snapshot_head *head = &d->head;

	for (uint32_t i = 0; i < head->mapped_count; i++)
		if (strcmp(head->paths + head->mapped[i].path, path) == 0)
			return (int32_t)i;
	errno = E2BIG;
	if (head->mapped_count == SNAPSHOT_MAPPED ||
	    add_file(d, path, &head->mapped[head->mapped_count]) < 0)
		return -1;
	return (int32_t)head->mapped_count++;
}

static int add_region(struct dump *d, uint64_t address, uint64_t size, uint64_t offset,
		      int32_t content, uint32_t protection)
{
	struct snapshot_head *head = &d->head;
	struct snapshot_region *last = &head->regions[head->region_count - 1];

	if (head->region_count > 0 && last->content == content &&
	    last->protection == protection && last->address + last->size == address &&
	    address != head->heap.address + head->heap.size &&
	    (content == CONTENT_ZERO || last->offset + last->size == offset)) {
		last->size += size;
		return 0;
	}
	errno = E2BIG;
	if (head->region_count == SNAPSHOT_REGIONS)
		return -1;
	head->regions[head->region_count++] = (struct snapshot_region){
		.address = address,
		.size = size,
		.offset = offset,
		.content = content,
		.protection = protection,
	};
	return 0;
}

/* Return true for a page whose content cannot come from its mapped file or from zero memory. */
static bool is_written(struct dump *d, const struct mapping *m, uint64_t address)
{
	memset(d->page, 0, SNAPSHOT_PAGE);
	/* Code is not compared, unless it is the heap, which some kernels make executable. */
	if ((m->protection & (PROT_EXEC | PROT_WRITE)) == PROT_EXEC)
		return false;
	if (m->source >= 0 &&
	    pread(m->source, d->page, SNAPSHOT_PAGE, (off_t)(m->offset + (address - m->start))) < 0)
		return true;
	return memcmp(d->page, (const void *)address, SNAPSHOT_PAGE) != 0;
}

/* Return the number of pages from `address` on to save, short gaps included; 0 if none. */
static uint64_t written_pages(struct dump *d, const struct mapping *m, uint64_t address)
{
	uint64_t written = 0;

	for (uint64_t i = 0; address + i * SNAPSHOT_PAGE < m->end && i < written + GAP_PAGES; i++)
		if (is_written(d, m, address + i * SNAPSHOT_PAGE))
			written = i + 1;
		else if (i == 0)
			break;
	return written;
}

static int dump_mapping(struct dump *d, const struct mapping *m)
{
	uint64_t address = m->start;

	if (m->wiped)
		return add_region(d, m->start, m->end - m->start, 0, CONTENT_WIPED, m->protection);
	if (!(m->protection & PROT_READ))
		return add_region(d, m->start, m->end - m->start, 0, CONTENT_ZERO, m->protection);
	while (address < m->end) {
		uint64_t size = written_pages(d, m, address) * SNAPSHOT_PAGE;

		if (size == 0) {
			if (add_region(d, address, SNAPSHOT_PAGE, m->offset + (address - m->start),
				       m->file, m->protection) < 0)
				return -1;
			address += SNAPSHOT_PAGE;
			continue;
		}
		if (pwrite(d->out, (const void *)address, size, (off_t)d->at) != (ssize_t)size ||
		    add_region(d, address, size, d->at, CONTENT_SNAPSHOT, m->protection) < 0)
			return -1;
		d->at += size;
		address += size;
	}
	return 0;
}

/* Save a mapping; one that is partly in the huge pages becomes two regions. */
static int dump_parts(struct dump *d, const struct mapping *m)
{
	uint64_t border = d->head.heap.address + d->head.heap.size;
	struct mapping inside = *m, outside = *m;

	if (border <= m->start || border >= m->end)
		return dump_mapping(d, m);
	inside.end = outside.start = border;
	return dump_mapping(d, &inside) < 0 ? -1 : dump_mapping(d, &outside);
}

/* Save the stack from a little below the stack pointer upwards. */
static void trim_stack(struct dump *d, struct mapping *m)
{
	uint64_t low = (d->head.registers[6] - RED_ZONE) & ~(uint64_t)(SNAPSHOT_PAGE - 1);

	if (low > m->start)
		m->start = low;
	d->head.stack_room = (struct snapshot_range){ m->start - STACK_ROOM, STACK_ROOM };
}

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

/*
 * Choose the huge pages for the heap, which the kernel lists after the program's own mappings.
 * `end` is the end of the mapping before it.  A heap with several protections has several lines.
 */
static void place_heap(struct dump *d, const struct mapping *m, uint64_t end)
{
	struct snapshot_range *heap = &d->head.heap;
	uint64_t low = m->start & ~(uint64_t)(SNAPSHOT_HUGE - 1);
	uint64_t used = d->heap_used < m->end ? d->heap_used : m->end;
	uint64_t high = (used + SNAPSHOT_HUGE - 1 - SNAPSHOT_TAIL) & ~(uint64_t)(SNAPSHOT_HUGE - 1);

	if (high <= low)
		return;
	if (heap->size > 0 && m->start == end)
		heap->size = high - heap->address;
	else if (low >= end)
		*heap = (struct snapshot_range){ low, high - low };
}

/* Do not use huge pages for the heap if they would contain any other mapping. */
static void check_heap(struct dump *d, const struct mapping *m)
{
	struct snapshot_range *heap = &d->head.heap;

	if (m->start < heap->address + heap->size && m->end > heap->address)
		heap->size = 0;
}

/* Dump one mapping: `line` as in /proc/self/maps, `properties` as in VmFlags of smaps. */
static int dump_line(struct dump *d, const char *line, const char *properties)
{
	struct snapshot_head *head = &d->head;
	struct mapping m = { .file = CONTENT_ZERO, .source = -1 };
	char flags[5];
	int path = 0, result;

	errno = EINVAL;
	if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %n", &m.start, &m.end, flags, &m.offset, &path) < 4)
		return -1;
	m.path = line + path;
	m.protection = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
		       (flags[2] == 'x' ? PROT_EXEC : 0);
	m.shared = flags[3] == 's';
	m.wiped = strstr(properties, " wf");
	if (begins_with(m.path, "[heap]"))
		place_heap(d, &m, d->end);
	else
		check_heap(d, &m);
	d->end = m.end;
	if (m.start == (uint64_t)d || begins_with(m.path, "[vsyscall]"))
		return 0;
	if (begins_with(m.path, "[vdso") || begins_with(m.path, "[vvar")) {
		if (head->vdso_count == SNAPSHOT_VDSO)
			return -1;
		head->vdso[head->vdso_count++] = (struct snapshot_range){ m.start, m.end - m.start };
		return 0;
	}
	if (m.shared && (m.protection & PROT_WRITE))
		return -1; /* memory shared with another process */
	if (m.path[0] == '/') {
		m.file = mapped_file(d, m.path);
		m.source = open(m.path, O_RDONLY | O_CLOEXEC);
		if (m.file < 0 || m.source < 0)
			return -1;
	}
	if (begins_with(m.path, "[stack]"))
		trim_stack(d, &m);
	result = dump_parts(d, &m);
	if (m.source >= 0)
		close(m.source);
	return result;
}

/* Read /proc/self/smaps completely before using it: the dump itself changes the mappings. */
static int read_maps(struct dump *d)
{
	int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t size;

	if (fd < 0) {
		errno = errno == ENOENT ? ENOSYS : errno; /* no CONFIG_PROC_PAGE_MONITOR */
		return -1;
	}
	while ((size = read(fd, d->maps + used, MAPS_SIZE - 1 - used)) > 0)
		used += (size_t)size;
	close(fd);
	errno = E2BIG;
	return size == 0 && used < MAPS_SIZE - 1 ? 0 : -1;
}

static uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Return the time that it takes to get writable pages from the snapshot, by faults or by one copy. */
static uint64_t time_pages(const struct dump *d, bool copied)
{
	const size_t size = MEASURED_PAGES * SNAPSHOT_PAGE;
	const off_t offset = (off_t)(d->at - size);
	const int flags = copied ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
	uint64_t began = nanoseconds();
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, copied ? -1 : d->out,
			   copied ? 0 : offset);
	bool done = pages != MAP_FAILED;

	if (!done)
		return 0;
	if (copied)
		done = pread(d->out, pages, size, offset) == (ssize_t)size;
	else
		for (size_t at = 0; at < size; at += SNAPSHOT_PAGE)
			*(volatile char *)(pages + at) = 1;
	munmap(pages, size);
	return done ? nanoseconds() - began : 0;
}

/* Have the writable regions copied if a fault for each page that is written to takes longer. */
static void choose_copies(struct dump *d)
{
	uint64_t fault = UINT64_MAX, copy = UINT64_MAX, took;

	if (d->at < MEASURED_PAGES * SNAPSHOT_PAGE)
		return;
	for (int round = 0; round < MEASURED_ROUNDS; round++) {
		took = time_pages(d, false);
		fault = took < fault ? took : fault;
		took = time_pages(d, true);
		copy = took < copy ? took : copy;
	}
	if (copy == 0 || fault / copy < SLOW_FAULT)
		return;
	for (uint32_t i = 0; i < d->head.region_count; i++)
		if (d->head.regions[i].content == CONTENT_SNAPSHOT &&
		    d->head.regions[i].protection & PROT_WRITE)
			d->head.regions[i].content = CONTENT_COPIED;
}

static int dump_memory(struct dump *d)
{
	struct snapshot_head *head = &d->head;
	const struct snapshot_range *code;
	const char *mapping = NULL;

	d->at = (sizeof(*head) + SNAPSHOT_PAGE - 1) & ~(uint64_t)(SNAPSHOT_PAGE - 1);
	if (read_maps(d) < 0)
		return -1;
	for (char *rest = d->maps, *line; (line = strsep(&rest, "\n")) && *line;) {
		if (line[strcspn(line, " ") - 1] != ':')
			mapping = line; /* its properties follow, "Name: value" */
		else if (mapping && begins_with(line, "VmFlags:") &&
			 dump_line(d, mapping, line) < 0)
			return -1;
	}
	errno = ENODEV;
	if (head->vdso_count == 0)
		return -1;
	code = &head->vdso[head->vdso_count - 1];
	head->vdso_checksum = snapshot_checksum((const void *)code->address, code->size);
	choose_copies(d);
	head->file_size = d->at;
	head->head_size = (uint32_t)((offsetof(struct snapshot_head, paths) + d->paths_used + 7) & ~7UL);
	head->checksum = snapshot_checksum(head, head->head_size);
	return pwrite(d->out, head, head->head_size, 0) == (ssize_t)head->head_size ? 0 : -1;
}

static void note_signals(struct snapshot_head *head)
{
	for (uint64_t number = 1; number <= 64 && head->signal_count < SNAPSHOT_SIGNALS; number++) {
		struct snapshot_signal *signal = &head->signals[head->signal_count];

		signal->number = number;
		if (syscall(SYS_rt_sigaction, number, NULL, signal->action, 8) == 0 &&
		    signal->action[0] != 0)
			head->signal_count++;
	}
}

static int read_boot_id(char boot[SNAPSHOT_BOOT])
{
	int fd = open(SNAPSHOT_BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, boot, SNAPSHOT_BOOT - 1);

	if (fd >= 0)
		close(fd);
	if (size <= 0)
		return -1;
	boot[strcspn(boot, "\n")] = '\0';
	return 0;
}

/*
 * Find the address at which the C library keeps the thread's id, which the kernel clears at the
 * thread's end.  If the kernel cannot tell (no CONFIG_CHECKPOINT_RESTORE), search for the id in the
 * library's thread descriptor, which begins at the thread pointer; it must be there exactly once.
 */
static int find_thread_id(struct snapshot_head *head)
{
	const int id = (int)syscall(SYS_gettid);
	const int *word = (const int *)head->thread_pointer;

	if (prctl(PR_GET_TID_ADDRESS, &head->thread_id) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	head->thread_id = 0;
	for (size_t i = 0; i < THREAD_SIZE / sizeof(*word); i++) {
		if (word[i] != id)
			continue;
		if (head->thread_id != 0)
			return -1;
		head->thread_id = (uint64_t)&word[i];
	}
	return head->thread_id != 0 ? 0 : -1;
}

static int describe_process(struct dump *d, const char *program, const char *const *watched)
{
	struct snapshot_head *head = &d->head;

	head->magic = SNAPSHOT_MAGIC;
	head->format = SNAPSHOT_FORMAT;
	head->mailbox = (uint64_t)&mailbox;
	note_signals(head);
	if (read_boot_id(head->boot) < 0)
		return -1;
	if (syscall(SYS_arch_prctl, ARCH_GET_FS, &head->thread_pointer) < 0 ||
	    find_thread_id(head) < 0 ||
	    syscall(SYS_get_robust_list, 0, &head->robust_list, &head->robust_list_size) < 0 ||
	    add_path(d, program, &head->program) < 0)
		return -1;
	for (; *watched; watched++) {
		errno = E2BIG;
		if (head->watched_count == SNAPSHOT_WATCHED ||
		    add_file(d, *watched, &head->watched[head->watched_count++]) < 0)
			return -1;
	}
	return 0;
}

static int dump_process(struct dump *d, const char *program, const char *const *watched)
{
	if (describe_process(d, program, watched) < 0)
		return -1;
	if (oci_save_registers(d->head.registers) != 0) {
		/*
		 * This is a new process.  Its program break is the launcher's, so malloc must not
		 * extend it.
		 */
		environ = mailbox.environment;
		__curbrk = (void *)~(uintptr_t)(SNAPSHOT_PAGE - 1);
		return 1;
	}
	return dump_memory(d);
}

/*
 * Leave the rest up to the next boundary of huge pages to commands: malloc keeps it as free memory,
 * allocates large blocks there too, and never shrinks the heap.  Return where the heap ended before.
 */
static uint64_t extend_heap(void)
{
	uint64_t used = (uintptr_t)sbrk(0), rest = -used % SNAPSHOT_HUGE;
	void *volatile room; /* volatile: otherwise the compiler omits both calls */

	mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP);
	mallopt(M_TRIM_THRESHOLD, LARGEST_IN_HEAP);
	mallopt(M_TOP_PAD, 0);
	room = rest > SNAPSHOT_PAGE ? malloc(rest - SNAPSHOT_PAGE) : NULL;
	free(room);
	return used;
}

int oci_freeze(int out, const char *program, const char *const *watched)
{
	struct dump *d;
	int result, error;

	if (&__rseq_size && __rseq_size != 0)
		return -EBUSY;
	/* Shared, so that the kernel does not merge it with adjacent mappings. */
	d = mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d == MAP_FAILED)
		return -errno;
	d->out = out;
	d->heap_used = extend_heap();
	result = dump_process(d, program, watched);
	if (result == 1) { /* in a new process, the scratch memory was never mapped */
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mailbox.blocked, NULL,
			sizeof(mailbox.blocked));
		return 1;
	}
	error = errno;
	munmap(d, sizeof(*d));
	return result < 0 ? -error : 0;
}
#else
int oci_freeze(int out, const char *program, const char *const *watched)
{
	(void)out;
	(void)program;
	(void)watched;
	return -ENOSYS;
}
#endif
