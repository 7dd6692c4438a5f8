/* A path of the container while it is resolved component by component. */
#ifndef WALK_H
#define WALK_H

#include <limits.h>

/* `done` is the path walked so far, without links; `rest` is the remaining path. */
struct walk {
	char done[PATH_MAX];
	char rest[PATH_MAX];
	int links;
};

int walk_start(struct walk *w, const char *path);

/* Take the next component off `rest`; return 1, 0 if there is none, -1 if it is too long. */
int walk_next(struct walk *w, char name[NAME_MAX + 1]);

/* Advance past `name`, which is not a link. */
int walk_enter(struct walk *w, const char *name);

/* Follow `name` if it is a link; return 1, 0 for another file or a missing one, -1 on error. */
int walk_follow(struct walk *w, int parent, const char *name);

#endif
