/*
 * main() of `ociruntime`: run the usual cases of some commands in C (fast_path/), and leave
 * everything else to the interpreter or its snapshot.
 */
#include "fast_path/fast_path.h"
#include "launcher/interpreter.h"

int main(int argc, char *argv[])
{
	const struct program program = {"ociruntime", "__main__.py", 1, ".snapshot", true};
	int failure_fd = -1, status;

	if (!may_run(&program))
		return program.failure;
	status = answer(argc, argv, &failure_fd);
	if (status != FALL_BACK)
		return status;
	return become_interpreter(&program, argc, argv, failure_fd);
}
