/*
 * Map a snapshot (format.h) back into memory.
 *
 * The file contains code that we are about to execute, so it must be as trusted as the state
 * directory next to it: owned by our user, not accessible to others, not a link, in a directory that
 * no one else can write to.  If anything does not match (another boot, another version, a changed
 * file, an address in use), thaw() returns, and the caller executes the interpreter, which replaces
 * all mappings made so far.
 */
#define _GNU_SOURCE
#include "snapshot/thaw.h"

#include "snapshot/format.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

static struct snapshot_head head;

static bool is_trusted(int fd, mode_t type, mode_t refused)
{
	struct stat status;

	return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type &&
	       status.st_uid == geteuid() && (status.st_mode & refused) == 0;
}

/* Open the directory, then the file below its descriptor, so that neither can be replaced. */
static int open_trusted(const char *path)
{
	char directory[256];
	const char *slash = strrchr(path, '/');
	size_t size = slash ? (size_t)(slash - path) : sizeof(directory);
	int parent, fd = -1;

	if (size >= sizeof(directory))
		return -1;
	memcpy(directory, path, size);
	directory[size] = '\0';
	parent = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (parent < 0)
		return -1;
	if (is_trusted(parent, S_IFDIR, S_IWGRP | S_IWOTH))
		fd = openat(parent, slash + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(parent);
	if (fd >= 0 && !is_trusted(fd, S_IFREG, S_IRWXG | S_IRWXO)) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_path(uint32_t offset)
{
	size_t limit = head.head_size - offsetof(struct snapshot_head, paths);

	return offset < limit && memchr(head.paths + offset, '\0', limit - offset);
}

/* Read and check the head; return false if it is incomplete or of another format. */
static bool read_head(int fd)
{
	const size_t fixed = offsetof(struct snapshot_head, paths);
	uint64_t checksum;
	struct stat status;

	if (read(fd, &head, fixed) != (ssize_t)fixed || head.magic != SNAPSHOT_MAGIC ||
	    head.format != SNAPSHOT_FORMAT || head.head_size > sizeof(head) ||
	    head.head_size % 8 != 0 || head.head_size < fixed ||
	    read(fd, head.paths, head.head_size - fixed) != (ssize_t)(head.head_size - fixed))
		return false;
	checksum = head.checksum;
	head.checksum = 0;
	return snapshot_checksum(&head, head.head_size) == checksum && fstat(fd, &status) == 0 &&
	       (uint64_t)status.st_size == head.file_size &&
	       head.vdso_count > 0 && head.vdso_count <= SNAPSHOT_VDSO &&
	       head.signal_count <= SNAPSHOT_SIGNALS && head.region_count <= SNAPSHOT_REGIONS &&
	       head.mapped_count <= SNAPSHOT_MAPPED && head.watched_count <= SNAPSHOT_WATCHED;
}

static bool is_this_boot(void)
{
	char boot[SNAPSHOT_BOOT] = "";
	int fd = open(SNAPSHOT_BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	if (size <= 1)
		return false;
	boot[size - 1] = '\0'; /* the line's end */
	return memcmp(boot, head.boot, sizeof(boot)) == 0;
}

static bool is_same(const struct snapshot_file *file, const struct stat *status)
{
	return status->st_dev == file->device && status->st_ino == file->inode &&
	       (uint64_t)status->st_size == file->size &&
	       (uint64_t)status->st_mtim.tv_sec * 1000000000 +
			       (uint64_t)status->st_mtim.tv_nsec == file->modified;
}

static bool are_unchanged(void)
{
	struct stat status;

	for (uint32_t i = 0; i < head.watched_count; i++)
		if (!is_path(head.watched[i].path) ||
		    stat(head.paths + head.watched[i].path, &status) < 0 ||
		    !is_same(&head.watched[i], &status))
			return false;
	return true;
}

static bool open_mapped(int files[SNAPSHOT_MAPPED])
{
	struct stat status;

	for (uint32_t i = 0; i < head.mapped_count; i++) {
		if (!is_path(head.mapped[i].path))
			return false;
		files[i] = open(head.paths + head.mapped[i].path, O_RDONLY | O_CLOEXEC);
		if (files[i] < 0 || fstat(files[i], &status) < 0 ||
		    !is_same(&head.mapped[i], &status))
			return false;
	}
	return true;
}

/*
 * Map huge pages for the heap.  Returns false, with nothing mapped, if no huge pages are free.  The
 * kernel may silently map small pages instead: then only the page that was written to is resident.
 */
static bool map_heap(void)
{
	const struct snapshot_range *heap = &head.heap;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	char *start = (char *)heap->address;

	if (heap->size == 0 || heap->size > SNAPSHOT_LARGEST_HEAP ||
	    mmap(start, heap->size, PROT_READ | PROT_WRITE, flags, -1, 0) != start)
		return false;
	if (madvise(start, heap->size, MADV_HUGEPAGE) == 0) {
		uint64_t at = 0;
		unsigned char resident = 1;

		for (; at < heap->size && resident & 1; at += SNAPSHOT_HUGE) {
			*(volatile char *)(start + at) = 0;
			if (mincore(start + at + SNAPSHOT_PAGE, SNAPSHOT_PAGE, &resident) < 0)
				resident = 0;
		}
		if (resident & 1)
			return true;
	}
	munmap(start, heap->size);
	return false;
}

/* Copy a region from the snapshot into memory that is mapped there already. */
static bool copy_region(const struct snapshot_region *region, int snapshot)
{
	return pread(snapshot, (void *)region->address, region->size, (off_t)region->offset) ==
	       (ssize_t)region->size;
}

/* Fill a region of the heap that is in the huge pages, which contain zero. */
static bool fill_region(const struct snapshot_region *region, int snapshot)
{
	if (region->content == CONTENT_ZERO)
		return true;
	return (region->content == CONTENT_SNAPSHOT || region->content == CONTENT_COPIED) &&
	       copy_region(region, snapshot);
}

static bool is_in_heap(const struct snapshot_region *region)
{
	return region->address >= head.heap.address &&
	       region->address - head.heap.address < head.heap.size;
}

/* Return true if freeze.c has found that page faults are slow here. */
static bool are_faults_slow(void)
{
	for (uint32_t i = 0; i < head.region_count; i++)
		if (head.regions[i].content == CONTENT_COPIED)
			return true;
	return false;
}

/*
 * Map a region, never over an existing mapping: the stack's address differs in each process.  Where
 * faults are slow (`populate`), all pages of files are mapped at once.
 */
static bool map_region(const struct snapshot_region *region, int snapshot, const int *files,
		       bool populate)
{
	const int placed = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
	void *address = (void *)region->address;
	int flags = placed, fd;

	if (region->content == CONTENT_ZERO || region->content == CONTENT_WIPED ||
	    region->content == CONTENT_COPIED) {
		flags |= MAP_ANONYMOUS | MAP_NORESERVE;
		fd = -1;
	} else if (region->content == CONTENT_SNAPSHOT) {
		fd = snapshot;
	} else if (region->content >= 0 && (uint32_t)region->content < head.mapped_count) {
		fd = files[region->content];
		flags |= populate ? MAP_POPULATE : 0;
	} else {
		return false;
	}
	return mmap(address, region->size, (int)region->protection, flags, fd,
		    fd < 0 ? 0 : (off_t)region->offset) == address &&
	       (region->content != CONTENT_COPIED || copy_region(region, snapshot)) &&
	       (region->content != CONTENT_WIPED ||
		madvise(address, region->size, MADV_WIPEONFORK) == 0);
}

/*
 * Copy the heap's end, which is mapped in small pages behind the huge ones.  Commands write to most of
 * it, and one call costs less than a fault for each page.  Older kernels copy a page at each fault.
 */
static void copy_tail(const struct snapshot_region *region)
{
	if (region->content == CONTENT_SNAPSHOT &&
	    region->address == head.heap.address + head.heap.size)
		madvise((void *)region->address, region->size, MADV_POPULATE_WRITE);
}

/*
 * Map the range into which the stack may grow.  Where the kernel places all stacks within a few
 * megabytes (without randomization, in User-Mode Linux), the present stack is in the way: then only
 * the upper part of the range is mapped.
 */
static bool map_stack_room(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	const uint64_t end = head.stack_room.address + head.stack_room.size;

	for (uint64_t size = head.stack_room.size; size >= SNAPSHOT_LEAST_STACK; size /= 2) {
		void *start = (void *)(end - size);

		if (mmap(start, size, PROT_READ | PROT_WRITE, flags, -1, 0) == start)
			return true;
	}
	return false;
}

/* Check that the vdso is at the saved address: the saved process has pointers into it. */
static bool is_vdso(uint64_t code)
{
	return code && snapshot_checksum((const void *)code, head.vdso[head.vdso_count - 1].size) ==
			       head.vdso_checksum;
}

static bool move_vdso(uint64_t code)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint64_t saved = head.vdso[head.vdso_count - 1].address;

	for (uint32_t i = 0; code != saved && i < head.vdso_count; i++) {
		struct snapshot_range *range = &head.vdso[i];
		void *to = (void *)range->address, *from = (void *)(code + (range->address - saved));

		/* Reserve the range first: mremap(2) would replace an existing mapping there. */
		if (mmap(to, range->size, PROT_NONE, flags, -1, 0) != to ||
		    mremap(from, range->size, range->size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
			return false;
	}
	return true;
}

/* Ask for the action of each signal; called only if /proc does not have the answer. */
static uint64_t ignored_one_by_one(void)
{
	uint64_t ignored = 0;

	for (uint64_t number = 1; number <= 64; number++) {
		uint64_t now[4] = { 0 };

		if (syscall(SYS_rt_sigaction, number, NULL, now, 8) == 0 &&
		    now[0] == (uint64_t)(uintptr_t)SIG_IGN)
			ignored |= (uint64_t)1 << (number - 1);
	}
	return ignored;
}

/* Return the signals that our caller ignores: 3 system calls, which are slow in some machines. */
static uint64_t ignored_signals(void)
{
	static const char field[] = "\nSigIgn:\t";
	char status[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, status, sizeof(status));
	const size_t name = sizeof(field) - 1, digits = 16;
	uint64_t ignored = 0;

	if (fd >= 0)
		close(fd);
	for (ssize_t at = 0; at + (ssize_t)(name + digits) <= size; at++) {
		if (memcmp(status + at, field, name) != 0)
			continue;
		for (size_t i = 0; i < digits; i++) {
			char digit = status[(size_t)at + name + i];

			ignored = ignored << 4 |
				  (uint64_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
		}
		return ignored;
	}
	return ignored_one_by_one();
}

/* Restore the saved signal actions; a signal that our caller ignores stays ignored. */
static void restore_signals(uint64_t ignored)
{
	for (uint32_t i = 0; i < head.signal_count; i++)
		if (!(ignored & (uint64_t)1 << (head.signals[i].number - 1)))
			syscall(SYS_rt_sigaction, head.signals[i].number, head.signals[i].action,
				NULL, 8);
}

/* Continue in the saved process; there is no way back.  Its stack protector's canary replaces ours, so
 * this function must not check it. */
static _Noreturn __attribute__((no_stack_protector)) void
become(char **arguments, char **environment)
{
	struct snapshot_mailbox *mailbox = (void *)head.mailbox;
	const uint64_t all = ~0ULL;

	mailbox->arguments = arguments;
	mailbox->environment = environment;
	/* A handler of the saved process must not run before its thread pointer is set; oci_freeze
	 * unblocks the signals. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mailbox->blocked, sizeof(all));
	mailbox->ignored = ignored_signals();
	*(int *)head.thread_id = (int)syscall(SYS_set_tid_address, head.thread_id);
	syscall(SYS_set_robust_list, head.robust_list, head.robust_list_size);
	restore_signals(mailbox->ignored);
	__asm__ volatile("mov %1, %%rbx\n"
			 "mov %2, %%eax\n"
			 "mov %3, %%edi\n"
			 "mov %4, %%rsi\n"
			 "syscall\n"
			 "mov %%rbx, %%rdi\n"
			 "mov 0(%%rdi), %%rbx\n"
			 "mov 8(%%rdi), %%rbp\n"
			 "mov 16(%%rdi), %%r12\n"
			 "mov 24(%%rdi), %%r13\n"
			 "mov 32(%%rdi), %%r14\n"
			 "mov 40(%%rdi), %%r15\n"
			 "mov 48(%%rdi), %%rsp\n"
			 "mov $1, %%eax\n"
			 "jmp *56(%%rdi)\n"
			 :
			 : "m"(head), "r"(head.registers), "i"(SYS_arch_prctl), "i"(ARCH_SET_FS),
			   "m"(head.thread_pointer)
			 : "rax", "rdi", "rsi", "rcx", "r11", "memory");
	__builtin_unreachable();
}

void thaw(const char *path, const char *program, char **arguments, char **environment)
{
	uint64_t code = getauxval(AT_SYSINFO_EHDR);
	int files[SNAPSHOT_MAPPED], snapshot = open_trusted(path);

	memset(files, 0xff, sizeof(files));
	if (snapshot >= 0 && read_head(snapshot) && is_path(head.program) &&
	    strcmp(head.paths + head.program, program) == 0 && is_vdso(code) &&
	    is_this_boot() && are_unchanged() && open_mapped(files)) {
		bool mapped = map_stack_room(), huge = map_heap(), slow = are_faults_slow();

		for (uint32_t i = 0; mapped && i < head.region_count; i++) {
			mapped = huge && is_in_heap(&head.regions[i]) ?
					 fill_region(&head.regions[i], snapshot) :
					 map_region(&head.regions[i], snapshot, files, slow);
			if (mapped && huge)
				copy_tail(&head.regions[i]);
		}
		if (mapped && move_vdso(code)) {
			for (uint32_t i = 0; i < head.mapped_count; i++)
				close(files[i]);
			close(snapshot);
			become(arguments, environment);
		}
	}
	for (uint32_t i = 0; i < head.mapped_count && i < SNAPSHOT_MAPPED; i++)
		if (files[i] >= 0)
			close(files[i]);
	if (snapshot >= 0)
		close(snapshot);
}
#else
void thaw(const char *path, const char *program, char **arguments, char **environment)
{
	(void)path;
	(void)program;
	(void)arguments;
	(void)environment;
}
#endif
