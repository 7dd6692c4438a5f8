/*
 * Read the file `entry` of a state directory.  ociruntime/runtime/lifecycle/fast_path_record.py
 * describes the format and writes the file.  If it is malformed or has another version, the
 * interpreter reads the other files of the state directory instead.
 */
#include "fast_path.h"

#include <string.h>

#define FIRST_LINE "ociruntime-entry 1"

struct reader {
	char *at;
	char *end; /* points to a NUL */
};

/* Return the rest of the next line if it begins with `name` and a blank, else NULL. */
static const char *take(struct reader *reader, const char *name)
{
	size_t length = strlen(name);
	char *line = reader->at, *feed;

	feed = memchr(line, '\n', (size_t)(reader->end - line));
	if (!feed || (size_t)(feed - line) < length + 1 || memcmp(line, name, length) != 0 ||
	    line[length] != ' ' || memchr(line, '\0', (size_t)(feed - line)))
		return NULL;
	*feed = '\0';
	reader->at = feed + 1;
	return line + length + 1;
}

static bool take_number(struct reader *reader, const char *name, unsigned long long *number)
{
	const char *text = take(reader, name);

	return text && read_decimal(&text, number) && *text == '\0';
}

static bool take_flag(struct reader *reader, const char *name, bool *flag)
{
	unsigned long long number;

	if (!take_number(reader, name, &number) || number > 1)
		return false;
	*flag = number == 1;
	return true;
}

static bool take_paths(struct reader *reader, const char *name, const char *paths[], size_t most,
		       size_t *count)
{
	const char *path;

	for (*count = 0; (path = take(reader, name)) != NULL; paths[(*count)++] = path)
		if (path[0] != '/' || *count == most)
			return false;
	return true;
}

static bool take_facts(struct reader *reader, struct record *record)
{
	unsigned long long pid, owner;

	if (!take_number(reader, "pid", &pid) || pid == 0 || pid > INT_MAX ||
	    !take_number(reader, "started", &record->started) || record->started == 0)
		return false;
	record->pid = (int)pid;
	record->freezer = take(reader, "freezer");
	if (!record->freezer || (record->freezer[0] != '/' && record->freezer[0] != '\0'))
		return false;
	if (!take_flag(reader, "own-pid-namespace", &record->own_pid_namespace) ||
	    !take_flag(reader, "start", &record->can_start) ||
	    !take_flag(reader, "delete", &record->can_delete) ||
	    !take_number(reader, "owner", &owner) || owner >= (uid_t)-1)
		return false;
	record->owner = (uid_t)owner;
	return take_paths(reader, "cgroup", record->own, MAX_OWN, &record->own_count) &&
	       take_paths(reader, "parent", record->parents, MAX_PARENTS, &record->parent_count);
}

/* Return the string up to the next NUL. */
static const char *take_piece(struct reader *reader)
{
	char *piece = reader->at;
	char *end = memchr(piece, '\0', (size_t)(reader->end - piece));

	if (!end)
		return NULL;
	reader->at = end + 1;
	return piece;
}

bool parse_record(struct record *record, size_t length)
{
	struct reader reader = { record->text, record->text + length };
	const size_t first = sizeof(FIRST_LINE); /* including its line feed */

	*reader.end = '\0';
	if (length < first || memcmp(reader.at, FIRST_LINE "\n", first) != 0)
		return false;
	reader.at += first;
	if (!take_facts(&reader, record) || *reader.at != '\n')
		return false;
	reader.at++;
	record->head = take_piece(&reader);
	record->middle = record->head ? take_piece(&reader) : NULL;
	if (!record->middle)
		return false;
	record->tail = reader.at;
	record->tail_length = (size_t)(reader.end - reader.at);
	return record->tail_length > 0 && !memchr(record->tail, '\0', record->tail_length);
}
