/* main() of `ocid`: map its snapshot, or start the interpreter. */
#include "launcher/interpreter.h"

int main(int argc, char *argv[])
{
	const struct program program = {"ocid", "manager/daemon/__main__.py", 1,
					".snapshot-ocid", false};

	if (!may_run(&program))
		return program.failure;
	return become_interpreter(&program, argc, argv, -1);
}
