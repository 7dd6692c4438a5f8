/* A process whose main thread has exited: /proc shows a zombie, and another thread goes on. */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *go_on(void *unused)
{
	(void)unused;
	/* The main thread exits a moment after this one has begun. */
	usleep(100000);
	puts("going on");
	fflush(stdout);
	for (;;)
		pause();
	return NULL;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, go_on, NULL) != 0)
		return 1;
	syscall(SYS_exit, 0);
	return 1;
}
