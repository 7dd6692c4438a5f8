/*
 * `ps --format json`: print the pids in the container's cgroups;
 * ociruntime/runtime/lifecycle/ps.py.  For the table, the interpreter runs ps(1).
 */
#include "fast_path.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { MAX_PIDS = 1024, LIST_SIZE = 16384 };

/* The pids found so far, sorted, without duplicates. */
struct pids {
	size_t count;
	uint32_t pids[MAX_PIDS];
};

static bool add_pid(struct pids *all, uint32_t pid)
{
	size_t at = all->count;

	while (at > 0 && all->pids[at - 1] > pid)
		at--;
	if (at > 0 && all->pids[at - 1] == pid)
		return true;
	if (all->count == MAX_PIDS)
		return false;
	memmove(all->pids + at + 1, all->pids + at, (all->count - at) * sizeof(*all->pids));
	all->pids[at] = pid;
	all->count++;
	return true;
}

/*
 * Return false if the interpreter must list the pids, for example because there are child
 * cgroups, a threaded cgroup or too many pids.
 */
static bool add_members(struct pids *all, const char *directory)
{
	char path[PATH_MAX], list[LIST_SIZE];
	const char *at = list;
	unsigned long long pid;

	if (has_child_cgroups(directory) ||
	    !text_join(path, sizeof(path), directory, "/cgroup.procs", NULL))
		return false;
	if (read_small_file(AT_FDCWD, path, list, sizeof(list)) < 0)
		return errno == ENOENT || errno == ENODEV; /* removed */
	while (read_decimal(&at, &pid)) {
		/* 0: a process outside our PID namespace */
		if (pid > INT_MAX || (pid > 0 && !add_pid(all, (uint32_t)pid)) || *at != '\n')
			return false;
		at++;
	}
	return *at == '\0';
}

int answer_ps(struct container *container)
{
	static struct pids all;
	static char data[MAX_PIDS * 11 + 8]; /* up to ten digits and a comma each */
	struct text text = text_in(data, sizeof(data));
	const struct record *record = &container->record;

	if (record->own_count == 0)
		return FALL_BACK;
	for (size_t i = 0; i < record->own_count; i++)
		if (!add_members(&all, record->own[i]))
			return FALL_BACK;
	text_add(&text, "[");
	for (size_t i = 0; i < all.count; i++) {
		text_add(&text, i > 0 ? "," : "");
		text_add_number(&text, all.pids[i], 10);
	}
	text_add(&text, "]\n");
	return text.whole ? write_out(text.data, text.used) : FALL_BACK;
}
