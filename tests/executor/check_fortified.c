/*
 * check_fortified N: the checks of csrc/libc/fortified.c, each with a size that does not fit, or
 * with one that does (N: 0).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../../csrc/libc/fortified.c"

void __chk_fail(void)
{
	_exit(42);
}

int main(int argc, char **argv)
{
	char room[8] = "", from[16] = "fifteen letters";
	struct pollfd fds[1] = { { .fd = -1 } };

	switch (argc > 1 ? atoi(argv[1]) : 0) {
	case 1:
		__memcpy_chk(room, from, sizeof(room) + 1, sizeof(room));
		break;
	case 2:
		__memmove_chk(room, from, sizeof(room) + 1, sizeof(room));
		break;
	case 3:
		__memset_chk(room, 0, sizeof(room) + 1, sizeof(room));
		break;
	case 4:
		__strcpy_chk(room, from, sizeof(room));
		break;
	case 5:
		__read_chk(-1, room, sizeof(room) + 1, sizeof(room));
		break;
	case 6:
		__pread_chk(-1, room, sizeof(room) + 1, 0, sizeof(room));
		break;
	case 7:
		__recv_chk(-1, room, sizeof(room) + 1, sizeof(room), 0);
		break;
	case 8:
		__readlinkat_chk(-1, "", room, sizeof(room) + 1, sizeof(room));
		break;
	case 9:
		__poll_chk(fds, 2, 0, sizeof(fds));
		break;
	case 10:
		__open_2("/dev/null", O_CREAT);
		break;
	case 11:
		__openat_2(-1, "/dev/null", O_TMPFILE | O_RDWR);
		break;
	default:
		__memcpy_chk(room, from, sizeof(room), sizeof(room));
		__strcpy_chk(room, "seven l", sizeof(room));
		__poll_chk(fds, 1, 0, sizeof(fds));
		return __openat_2(-1, "/dev/null", O_RDONLY) < 0 || __open_2("/dev/null", O_RDONLY) < 0;
	}
	return 0;
}
