/* What the two halves of hostile share; see hostile.c. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <sys/stat.h>

/* got: print an action that succeeded, and its object. */
void got(const char *action, const char *object);

int is_device(const struct stat *about);

/* is_own: whether it is on the container's own /dev. */
int is_own(const struct stat *about);

/* change_node: try to change a device node for good; name is what is printed. */
void change_node(const char *path, const char *name);

void use_ioctls(int descriptor, const char *name);

int in_child(int (*task)(void));

void try_devices(void);
void try_handles(void);
void try_mounts(void);
void try_namespaces(void);
void try_processes(void);

#endif
