/* Check the syntax of a container id, by the rules in ociruntime/runtime/lifecycle/container_id.py. */
#include "fast_path.h"

#include <string.h>

enum { LONGEST = 240 };

bool is_plain_id(const char *id)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "abcdefghijklmnopqrstuvwxyz0123456789_+-.";
	size_t length = strlen(id);

	return length > 0 && length <= LONGEST && id[0] != '.' && id[0] != '-' &&
	       strspn(id, characters) == length;
}
