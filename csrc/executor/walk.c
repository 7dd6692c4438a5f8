/*
 * Resolve a path component by component: symbolic links are followed, and ".." removes the last
 * component walked.  The caller opens each component without following links.
 */
#define _GNU_SOURCE
#include "walk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINK_LIMIT 40 /* the kernel's own limit (MAXSYMLINKS) */

int walk_start(struct walk *w, const char *path)
{
	w->done[0] = '\0';
	w->links = 0;
	if (strlen(path) >= sizeof(w->rest)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(w->rest, path);
	return 0;
}

int walk_next(struct walk *w, char name[NAME_MAX + 1])
{
	char *at = w->rest;
	size_t length;

	for (;;) {
		at += strspn(at, "/");
		length = strcspn(at, "/");
		if (length == 0)
			return 0;
		if (length > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, at, length);
		name[length] = '\0';
		at += length;
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") != 0)
			break;
		/* ".." at the root stays there, as in every root. */
		char *slash = strrchr(w->done, '/');

		if (slash)
			*slash = '\0';
	}
	memmove(w->rest, at, strlen(at) + 1);
	return 1;
}

int walk_enter(struct walk *w, const char *name)
{
	size_t length = strlen(w->done);

	if (length + 1 + strlen(name) >= sizeof(w->done)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	w->done[length] = '/';
	strcpy(w->done + length + 1, name);
	return 0;
}

/* Prepend a link's target to the rest; an absolute target starts at the root again. */
static int walk_link(struct walk *w, const char *text, size_t length)
{
	size_t left = strlen(w->rest);

	if (++w->links > LINK_LIMIT) {
		errno = ELOOP;
		return -1;
	}
	if (length + 1 + left >= sizeof(w->rest)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memmove(w->rest + length + 1, w->rest, left + 1);
	memcpy(w->rest, text, length);
	w->rest[length] = '/';
	if (text[0] == '/')
		w->done[0] = '\0';
	return 0;
}

int walk_follow(struct walk *w, int parent, const char *name)
{
	char text[PATH_MAX];
	ssize_t length = readlinkat(parent, name, text, sizeof(text));

	if (length < 0) /* the kernel reports EINVAL for every file that is not a link */
		return errno == ENOENT || errno == EINVAL ? 0 : -1;
	return walk_link(w, text, (size_t)length) < 0 ? -1 : 1;
}
