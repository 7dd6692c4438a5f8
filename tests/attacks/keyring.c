/*
 * Session keyrings by name.
 *
 *   keyring plant NAME...   join each, put a key there, open both to all users, and stay
 *   keyring look            print whether that key is in this process's session keyring
 */
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVERYTHING 0x3f3f3f3f

static void plant(const char *name)
{
	long keyring = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name);
	long key = syscall(SYS_add_key, "user", "planted", "x", 1, keyring);

	if (keyring < 0 || key < 0 || syscall(SYS_keyctl, KEYCTL_SETPERM, key, EVERYTHING) < 0 ||
	    syscall(SYS_keyctl, KEYCTL_SETPERM, keyring, EVERYTHING) < 0)
		perror(name);
	else
		printf("planted %s\n", name);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "plant") == 0) {
		for (int i = 2; i < argc; i++) {
			if (fork() == 0) {
				plant(argv[i]);
				pause();
			}
		}
		pause();
	}
	puts(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "planted", 0) < 0
		     ? "nothing"
		     : "planted");
	return 0;
}
