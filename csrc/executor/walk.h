/* A path of the container on its way from component to component. */
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

/* 1: the next component was taken off `rest`; 0: there is none; -1: it is too long. */
int walk_next(struct walk *w, char name[NAME_MAX + 1]);

/* Stand behind `name`, which is no link. */
int walk_enter(struct walk *w, const char *name);

/* 1: `name` is a link and was followed; 0: it is something else or nothing; -1: error. */
int walk_follow(struct walk *w, int parent, const char *name);

#endif
