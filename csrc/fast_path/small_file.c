/* Read the whole content of a small file. */
#include "fast_path.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Return the length without the final NUL, or -1 and errno if it cannot be read or does not fit. */
ssize_t read_small_file(int directory, const char *path, char *text, size_t size)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t used = 0;
	ssize_t got;
	int error;

	if (fd < 0)
		return -1;
	do {
		got = read(fd, text + used, size - used);
		if (got > 0)
			used += (size_t)got;
	} while ((got > 0 && used < size) || (got < 0 && errno == EINTR));
	error = got < 0 ? errno : EFBIG;
	close(fd);
	errno = error;
	if (got != 0 || used == size)
		return -1;
	text[used] = '\0';
	return (ssize_t)used;
}
