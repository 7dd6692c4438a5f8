/* The container's init, with a child that traces it and holds it at exit. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	if (fork() == 0) {
		int status;

		if (ptrace(PTRACE_SEIZE, 1, 0, PTRACE_O_TRACEEXIT) < 0) {
			perror("ptrace");
			return 1;
		}
		printf("held\n");
		fflush(stdout);
		waitpid(1, &status, 0);
		for (;;)
			pause();
	}
	for (;;)
		pause();
}
