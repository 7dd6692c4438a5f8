/* main() of `ocipod`: map its snapshot, or start the interpreter. */
#include "launcher/interpreter.h"

int main(int argc, char *argv[])
{
	const struct program program = {"ocipod", "pods/cli/__main__.py", 254,
					".snapshot-ocipod", false};

	if (!may_run(&program))
		return program.failure;
	return become_interpreter(&program, argc, argv, -1);
}
