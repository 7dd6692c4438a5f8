/*
 * Start a program without a C library: from the kernel to main().
 *
 * Every created container has a waiting executor in memory: 730 kB with the static GNU C library, of
 * which the executor itself is a twentieth.  In the launcher, that library's start would take 0.3 ms
 * of each command.  These files provide the functions that both need.  Sanitizer builds and
 * unsupported processors use the C library instead.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/*
 * The entry point: the kernel jumps to it, with the arguments on the stack and no return address.
 */
#if defined(__x86_64__)
__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call begin\n"
	"	hlt\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n"
	"_start:\n"
	"	mov x29, #0\n"
	"	mov x30, #0\n"
	"	mov x0, sp\n"
	"	bl begin\n"
	"	brk #1\n");
#else
#error "unknown processor: build with a C library"
#endif

int main(int argc, char **argv);
_Noreturn void begin(uintptr_t *stack);
_Noreturn void __stack_chk_fail(void);
_Noreturn void __chk_fail(void);

/* The stack protector's canary (-fstack-protector). */
uintptr_t __stack_chk_guard;

char **environ;
static const Elf64_auxv_t *auxiliary;

unsigned long getauxval(unsigned long type)
{
	for (const Elf64_auxv_t *entry = auxiliary; entry->a_type != AT_NULL; entry++)
		if (entry->a_type == type)
			return entry->a_un.a_val;
	return 0;
}

char *getenv(const char *name)
{
	size_t length = strlen(name);

	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}

__attribute__((used)) void begin(uintptr_t *stack)
{
	int argc = (int)stack[0];
	char **argv = (char **)(stack + 1);
	uintptr_t *at = stack + 1 + argc + 1;
	const uintptr_t *random;

	environ = (char **)at;
	while (*at != 0)
		at++;
	auxiliary = (const Elf64_auxv_t *)(at + 1);
	random = (const uintptr_t *)getauxval(AT_RANDOM);
	/* The first byte is NUL, so that a string that overflows cannot contain the canary. */
	__stack_chk_guard = (random ? *random : (uintptr_t)stack) & ~(uintptr_t)0xff;
	_exit(main(argc, argv));
}

static _Noreturn void stop(const char *reason, size_t size)
{
	(void)!write(2, reason, size);
	__builtin_trap();
}

void __stack_chk_fail(void)
{
	static const char reason[] = "ociruntime: stack smashing detected\n";

	stop(reason, sizeof(reason) - 1);
}

void __chk_fail(void)
{
	static const char reason[] = "ociruntime: buffer overflow detected\n";

	stop(reason, sizeof(reason) - 1);
}
