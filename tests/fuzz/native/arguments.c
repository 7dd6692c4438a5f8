/*
 * The fast path's command lines, words divided by line feeds: each is left to the interpreter, or
 * names a plain id and a signal that exists.
 */
#include <stdlib.h>
#include <string.h>

#include "fast_path/fast_path.h"

enum { MAX_WORDS = 32, LAST_SIGNAL = 64 };

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

static void check(const struct request *request, char *const argv[], int argc)
{
	bool given = false;

	if (!request->id || strchr(request->id, '/') || request->id[0] == '\0' ||
	    strcmp(request->id, ".") == 0 || strcmp(request->id, "..") == 0)
		abort();
	for (int i = 1; i < argc; i++)
		given |= argv[i] == request->id;
	if (!given || request->signal < 0 || request->signal > LAST_SIGNAL)
		abort();
	if (request->force && request->verb != VERB_DELETE)
		abort();
	if (request->json != (request->verb == VERB_PS))
		abort();
	if (request->root && request->root[0] == '\0')
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size)
{
	char *text = malloc(size + 1), *argv[MAX_WORDS + 1] = { NULL };
	char root[PATH_MAX];
	struct request request;
	int argc = 0;

	if (!text)
		abort();
	memcpy(text, input, size);
	text[size] = '\0';
	for (char *at = text; argc < MAX_WORDS;) {
		char *feed = strchr(at, '\n');

		/* Each word alone: a read beyond one does not end in the next. */
		argv[argc++] = strndup(at, feed ? (size_t)(feed - at) : strlen(at));
		if (!feed)
			break;
		at = feed + 1;
	}
	if (read_arguments(argc, argv, &request)) {
		check(&request, argv, argc);
		if (request.root)
			(void)find_state_root(request.root, root);
	}
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	free(text);
	return 0;
}
