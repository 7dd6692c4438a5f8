/* Start a second thread, on its own stack. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

/* Replaces the C library's clone(3), for functions that do not return. */
int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("	syscall\n"
			 "	test %%rax, %%rax\n"
			 "	jnz 1f\n"
			 "	mov %[argument], %%rdi\n"
			 "	call *%[run]\n"
			 "	hlt\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"((long)flags), "S"(stack), [run] "r"(run),
			   [argument] "r"(argument)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = flags;
	register void *x1 __asm__("x1") = stack;
	long result;

	__asm__ volatile("	svc 0\n"
			 "	cbnz x0, 1f\n"
			 "	mov x0, %[argument]\n"
			 "	blr %[run]\n"
			 "	brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), [run] "r"(run), [argument] "r"(argument)
			 : "memory");
	result = x0;
#endif
	if (result >= 0)
		return (int)result;
	errno = (int)-result;
	return -1;
}
