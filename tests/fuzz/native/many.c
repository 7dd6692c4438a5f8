/*
 * Try many inputs on a target without looking at what they reach: ten times as many in the same
 * time as libFuzzer, whose options are understood (`-runs`, `-max_total_time`, `-max_len`, `-seed`,
 * `-artifact_prefix`) or ignored.  The last argument is the directory with the inputs to change.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void));

enum { LARGEST = 1 << 16, MOST_CHANGES = 6, PERIOD = 1 << 16, MOST_INPUTS = 1 << 16 };

struct input {
	uint8_t *data;
	size_t size;
};

static struct input inputs[MOST_INPUTS];
static size_t input_count;
static uint8_t current[LARGEST];
static size_t current_size, largest = 4096;
static const char *prefix = "";
static uint64_t state;

static uint64_t next(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545F4914F6CDD1DULL;
}

static size_t below(size_t limit)
{
	return limit ? (size_t)(next() >> 16) % limit : 0;
}

/* Write the input that has ended the process. */
static void save(void)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%scrash-%016llx", prefix, (unsigned long long)state);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0) {
		(void)!write(fd, current, current_size);
		close(fd);
	}
}

static void save_and_abort(int number)
{
	save();
	signal(number, SIG_DFL);
	raise(number);
}

static void read_inputs(const char *directory)
{
	DIR *stream = opendir(directory);
	struct dirent *entry;

	if (!stream)
		exit(2);
	while ((entry = readdir(stream)) != NULL && input_count < MOST_INPUTS) {
		int fd = openat(dirfd(stream), entry->d_name, O_RDONLY | O_CLOEXEC);
		struct input *one = &inputs[input_count];
		ssize_t got;

		if (fd < 0 || entry->d_name[0] == '.') {
			if (fd >= 0)
				close(fd);
			continue;
		}
		got = read(fd, current, largest);
		close(fd);
		if (got < 0)
			continue;
		one->data = malloc((size_t)got + 1);
		if (!one->data)
			exit(2);
		memcpy(one->data, current, (size_t)got);
		one->size = (size_t)got;
		input_count++;
	}
	closedir(stream);
	if (input_count == 0)
		exit(2);
}

static void put_number(void)
{
	static const uint32_t numbers[] = { 0,	  1,	  2,	      3,	  4,	     7,
					    8,	  255,	  65535,      0x7fffffff, 0x80000000, 0xffffffff,
					    0xfff, 0x1000, 0xfffffffc, 0xfffffffd, 0xfffffffe };
	uint32_t number = numbers[below(sizeof(numbers) / sizeof(*numbers))];
	size_t at = below(current_size / 4) * 4;

	if (below(4) == 0)
		number = (uint32_t)(current_size - at) + (uint32_t)below(9) - 4;
	if (at + 4 <= current_size)
		memcpy(current + at, &number, 4);
}

static void remove_part(void)
{
	size_t at = below(current_size), length = below(current_size - at) + 1;

	if (current_size == 0)
		return;
	if (below(2))
		length = length % 8 + 1;
	if (length > current_size - at)
		length = current_size - at;
	memmove(current + at, current + at + length, current_size - at - length);
	current_size -= length;
}

static void insert_part(const uint8_t *data, size_t size)
{
	size_t from = below(size), length = below(size - from) + 1, at = below(current_size + 1);

	if (size == 0)
		return;
	if (length > size - from)
		length = size - from;
	if (length > largest - current_size)
		length = largest - current_size;
	memmove(current + at + length, current + at, current_size - at);
	memmove(current + at, data + from, length);
	current_size += length;
}

static void change(void)
{
	uint8_t copy[64];
	size_t length;
	const struct input *other;

	switch (below(8)) {
	case 0:
	case 1:
		if (current_size)
			current[below(current_size)] ^= (uint8_t)(1U << below(8));
		return;
	case 2:
		if (current_size)
			current[below(current_size)] = (uint8_t)next();
		return;
	case 3:
	case 4:
		put_number();
		return;
	case 5:
		remove_part();
		return;
	case 6:
		length = current_size < sizeof(copy) ? current_size : sizeof(copy);
		memcpy(copy, current, length);
		insert_part(copy, length);
		return;
	default:
		other = &inputs[below(input_count)];
		insert_part(other->data, other->size);
	}
}

static void try_one(void)
{
	const struct input *base = &inputs[below(input_count)];

	current_size = base->size;
	memcpy(current, base->data, base->size);
	for (size_t i = below(MOST_CHANGES) + 1; i > 0; i--)
		change();
	(void)LLVMFuzzerTestOneInput(current, current_size);
}

int main(int argc, char *argv[])
{
	uint64_t runs = UINT64_MAX, done = 0;
	time_t started = time(NULL), seconds = 0;

	state = (uint64_t)started * 2654435761U ^ (uint64_t)getpid();
	for (int i = 1; i < argc - 1; i++) {
		const char *value = strchr(argv[i], '=');

		if (!value++)
			continue;
		if (strncmp(argv[i], "-runs=", 6) == 0 && value[0] != '-')
			runs = strtoull(value, NULL, 10);
		else if (strncmp(argv[i], "-max_total_time=", 16) == 0)
			seconds = strtol(value, NULL, 10);
		else if (strncmp(argv[i], "-max_len=", 9) == 0)
			largest = strtoul(value, NULL, 10) % LARGEST;
		else if (strncmp(argv[i], "-seed=", 6) == 0)
			state = strtoull(value, NULL, 10) + 1;
		else if (strncmp(argv[i], "-artifact_prefix=", 17) == 0)
			prefix = value;
	}
	__sanitizer_set_death_callback(save);
	signal(SIGABRT, save_and_abort);
	read_inputs(argv[argc - 1]);
	while (done < runs) {
		try_one();
		if (++done % PERIOD == 0) {
			(void)fprintf(stderr, "#%llu\tpulse\n", (unsigned long long)done);
			if (seconds && time(NULL) - started >= seconds)
				break;
		}
	}
	(void)fprintf(stderr, "Done %llu runs in %lld second(s)\n", (unsigned long long)done,
		      (long long)(time(NULL) - started));
	return 0;
}
