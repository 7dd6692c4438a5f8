/* Holds a write lease on /etc/hosts for as long as the kernel lets it: open(2) by another waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

int main(void)
{
	signal(SIGIO, SIG_IGN);
	int fd = open("/etc/hosts", O_RDWR);
	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return 1;
	if (write(1, "leased\n", 7) != 7)
		return 1;
	for (;;)
		pause();
}
