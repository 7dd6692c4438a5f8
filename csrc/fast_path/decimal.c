/* Parse decimal numbers in the file `entry` and in /proc. */
#include "fast_path.h"

bool read_decimal(const char **at, unsigned long long *number)
{
	const char *first = *at;

	for (*number = 0; **at >= '0' && **at <= '9'; ++*at)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (unsigned int)(**at - '0'), number))
			return false;
	return *at > first;
}
