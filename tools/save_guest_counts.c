/*
 * For `./dev coverage`, linked to the guest program with -Wl,--wrap=reboot: before a virtual machine
 * is powered off, copy the file with its counts to each shared directory that has a file `guests`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_reboot(int how);
int __wrap_reboot(int how);

static void copy(const char *from, const char *share)
{
	unsigned long number = 0;
	struct stat file;
	char path[256];
	int in, out;

	(void)getrandom(&number, sizeof(number), 0);
	(void)snprintf(path, sizeof(path), "%s/guest-%lx.profraw", share, number);
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (in >= 0 && out >= 0 && fstat(in, &file) == 0)
		while (sendfile(out, in, NULL, (size_t)file.st_size) > 0)
			;
	(void)fsync(out);
	close(out);
	close(in);
}

int __wrap_reboot(int how)
{
	glob_t counts, marks;

	if (glob(COUNTS "/*.profraw", 0, NULL, &counts) == 0 &&
	    glob("/share/*/guests", 0, NULL, &marks) == 0)
		for (size_t i = 0; i < marks.gl_pathc; i++) {
			*strrchr(marks.gl_pathv[i], '/') = '\0';
			for (size_t j = 0; j < counts.gl_pathc; j++)
				copy(counts.gl_pathv[j], marks.gl_pathv[i]);
		}
	return __real_reboot(how);
}
