/* A path of the container while it is resolved component by component. */
#ifndef WALK_H
#define WALK_H

#include <limits.h>

/* `done` is free of links, `rest` is still to be walked. */
struct walk {
	char done[PATH_MAX];
	char rest[PATH_MAX];
	int links;
};

int walk_start(struct walk *w, const char *path);

/* Return 1: took the next component off `rest`; 0: there is none; -1: it is too long. */
int walk_next(struct walk *w, char name[NAME_MAX + 1]);

/* Advance past `name`, which is not a link. */
int walk_enter(struct walk *w, const char *name);

/* Return 1: `name` is a link and was followed; 0: it is another file or missing; -1: error. */
int walk_follow(struct walk *w, int parent, const char *name);

#endif
