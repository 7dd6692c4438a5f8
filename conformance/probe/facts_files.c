/* facts_files.c: files that the case asks for. */
#define _GNU_SOURCE
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	default:
		return 'f';
	}
}

static void put_stat(const char *key, const char *path)
{
	struct stat info;
	struct statfs filesystem;
	char link[4096], kind[2] = "";
	if (lstat(path, &info) < 0) {
		put_error(key, errno);
		return;
	}
	put_open(key, '{');
	kind[0] = kind_of(info.st_mode);
	put_text("kind", kind);
	put_number("mode", info.st_mode & 07777);
	put_number("uid", info.st_uid);
	put_number("gid", info.st_gid);
	put_number("size", info.st_size);
	put_unsigned("device", info.st_dev);
	put_unsigned("inode", info.st_ino);
	put_number("major", major(info.st_rdev));
	put_number("minor", minor(info.st_rdev));
	ssize_t length = readlink(path, link, sizeof(link));
	if (length >= 0)
		put_bytes("link", link, (size_t)length);
	if (statfs(path, &filesystem) == 0)
		put_number("filesystem", filesystem.f_type);
	put_close('}');
}

static void put_content(const char *key, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t used = 0, size = 1 << 20;
	char *text = malloc(size);
	ssize_t length = fd < 0 || !text ? -1 : 0;
	while (length >= 0 && used < size) {
		length = read(fd, text + used, size - used);
		if (length <= 0)
			break;
		used += (size_t)length;
	}
	if (length < 0)
		put_error(key, errno);
	else
		put_bytes(key, text, used);
	if (fd >= 0)
		close(fd);
	free(text);
}

static void put_list(const char *key, const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	if (!directory) {
		put_error(key, errno);
		return;
	}
	put_open(key, '[');
	while ((entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			put_text(NULL, entry->d_name);
	put_close(']');
	closedir(directory);
}

/* "r:/path" -> "ok" or the error's name; w does not create. */
static void put_open_attempt(const char *key, const char *word)
{
	const char *path = strchr(word, ':');
	int flags = word[0] == 'w' ? O_WRONLY : word[0] == 'b' ? O_RDWR : O_RDONLY;
	int fd = open(path ? path + 1 : "", flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	put_text(key, fd < 0 ? error_name(errno) : "ok");
	if (fd >= 0)
		close(fd);
}

static const struct {
	const char *name;
	void (*put)(const char *key, const char *path);
} groups[] = {
    {"stat", put_stat},
    {"read", put_content},
    {"list", put_list},
    {"open", put_open_attempt},
};

static void substitute(char *target, size_t size, const char *word, const char *pid)
{
	const char *place = pid ? strstr(word, "%p") : NULL;
	if (place)
		snprintf(target, size, "%.*s%s%s", (int)(place - word), word, pid, place + 2);
	else
		snprintf(target, size, "%s", word);
}

void put_asked(char *const *words, int count, const char *pid)
{
	for (size_t group = 0; group < LENGTH(groups); group++) {
		size_t length = strlen(groups[group].name);
		put_open(groups[group].name, '{');
		for (int i = 0; i < count; i++) {
			char path[4096];
			if (strncmp(words[i], groups[group].name, length) != 0 ||
			    words[i][length] != '=')
				continue;
			const char *key = words[i] + length + 1;
			substitute(path, sizeof(path), key, pid);
			groups[group].put(key, path);
		}
		put_close('}');
	}
}
