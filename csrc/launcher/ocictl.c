/* main() of `ocictl`: map its snapshot, or start the interpreter. */
#include "launcher/interpreter.h"

int main(int argc, char *argv[])
{
	const struct program program = {"ocictl", "manager/client/__main__.py", 1,
					".snapshot-ocictl", false};

	if (!may_run(&program))
		return program.failure;
	return become_interpreter(&program, argc, argv, -1);
}
