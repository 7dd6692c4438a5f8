/* Run a target on the files that are named as arguments, without libFuzzer. */
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

enum { LARGEST = 1 << 20 };

int main(int argc, char *argv[])
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		unsigned char *data = malloc(LARGEST);
		size_t size;

		if (!file || !data)
			return 1;
		size = fread(data, 1, LARGEST, file);
		(void)fclose(file);
		(void)LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	return 0;
}
