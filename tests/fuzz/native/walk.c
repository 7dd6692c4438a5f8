/*
 * Paths through random forests of directories, files and symbolic links, resolved four ways: by
 * openat2(2), component by component (open_below.c without it), by a model in memory, and by the
 * functions that create what is missing (paths.c).  All have to end at the same file, in the root.
 *
 * An input is a list of entries of four bytes (directory, name, kind, target), then 0xff, then the
 * path, whose bytes each stand for a part of it.
 */
#include "executor.h"
#include "kernel.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool walking; /* as if an outer filter forbade openat2(2) */

static int chosen_openat2(int root, const char *path, struct open_how *how)
{
	if (walking) {
		errno = ENOSYS;
		return -1;
	}
	return sys_openat2(root, path, how);
}

#define sys_openat2 chosen_openat2
#include "open_below.c"
#undef sys_openat2

bool is_missing_call(long number)
{
	return number == SYS_openat2;
}

/* Only walks with RESOLVE_NO_XDEV need the ids of mounts, and this target makes none. */
uint64_t mount_id(int fd)
{
	(void)fd;
	return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size);

enum kind { DIRECTORY, FILE_, LINK, KINDS };
enum { MAX_NODES = 24, TEXT = 256, LINK_LIMIT_ = 40 };

struct node {
	int parent;
	enum kind kind;
	char name[8];
	char target[TEXT];
	ino_t inode;
};

static struct node nodes[MAX_NODES];
static int node_count;
static int base_fd = -1, root_fd = -1;
static char root_path[PATH_MAX];

static const char *const pieces[] = {
	"a", "b", "c", "d", "/", "/", "/", "..", ".", "a/b", "../", "/..", "//", "./", "out", "e/",
};

/* Put the pieces that the bytes stand for together, with slashes between names. */
static void spell(char text[TEXT], const unsigned char *bytes, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < size; i++) {
		const char *piece = pieces[bytes[i] % (sizeof(pieces) / sizeof(*pieces))];

		if (used + strlen(piece) + 2 > TEXT)
			break;
		if (used > 0 && text[used - 1] != '/' && piece[0] != '/')
			text[used++] = '/';
		strcpy(text + used, piece);
		used += strlen(piece);
	}
}

static int child(int parent, const char *name, size_t length)
{
	for (int i = 1; i < node_count; i++)
		if (nodes[i].parent == parent && strlen(nodes[i].name) == length &&
		    memcmp(nodes[i].name, name, length) == 0)
			return i;
	return -1;
}

static int make_path(int node, char path[TEXT])
{
	char rest[TEXT];

	path[0] = '\0';
	for (; node > 0; node = nodes[node].parent) {
		(void)snprintf(rest, sizeof(rest), "%s", path);
		if (snprintf(path, TEXT, "%s/%s", nodes[node].name, rest) >= TEXT)
			return -1;
	}
	if (path[0])
		path[strlen(path) - 1] = '\0';
	return 0;
}

static void add(const unsigned char *entry)
{
	struct node *node = &nodes[node_count];
	char path[TEXT];
	struct stat status;
	int fd;

	memset(node, 0, sizeof(*node));
	node->parent = entry[0] % node_count;
	node->kind = (enum kind)(entry[2] % KINDS);
	if (nodes[node->parent].kind != DIRECTORY)
		node->parent = 0;
	(void)snprintf(node->name, sizeof(node->name), "%c", 'a' + entry[1] % 5);
	if (child(node->parent, node->name, 1) >= 0)
		return;
	node_count++;
	if (make_path(node_count - 1, path) < 0) {
		node_count--;
		return;
	}
	if (node->kind == DIRECTORY) {
		if (mkdirat(root_fd, path, 0755) < 0)
			abort();
	} else if (node->kind == LINK) {
		unsigned char bytes[] = { entry[3], entry[3] >> 4, entry[2] >> 2, entry[1] >> 3 };

		spell(node->target, bytes, 1 + entry[3] % 4);
		if (symlinkat(node->target, root_fd, path) < 0)
			abort();
	} else {
		fd = openat(root_fd, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
		if (fd < 0)
			abort();
		close(fd);
	}
	if (fstatat(root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		abort();
	node->inode = status.st_ino;
}

/* The model: return the node that `path` leads to from `at`, or -1 with errno. */
static int resolve(int at, const char *path, bool follow_last, int *links)
{
	if (path[0] == '/')
		at = 0;
	while (*path) {
		size_t length;
		int next;

		if (*path == '/') {
			path++;
			continue;
		}
		if (nodes[at].kind != DIRECTORY) {
			errno = ENOTDIR;
			return -1;
		}
		length = strcspn(path, "/");
		if (length == 1 && path[0] == '.') {
			path++;
			continue;
		}
		if (length == 2 && memcmp(path, "..", 2) == 0) {
			at = at ? nodes[at].parent : 0;
			path += 2;
			continue;
		}
		next = child(at, path, length);
		if (next < 0) {
			errno = ENOENT;
			return -1;
		}
		path += length;
		if (nodes[next].kind == LINK && (*path || follow_last)) {
			if (++*links > LINK_LIMIT_) {
				errno = ELOOP;
				return -1;
			}
			next = resolve(at, nodes[next].target, true, links);
			if (next < 0)
				return -1;
		}
		at = next;
		if (*path == '/' && nodes[at].kind != DIRECTORY) {
			errno = ENOTDIR;
			return -1;
		}
	}
	return at;
}

static ino_t inode_of(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		abort();
	return status.st_ino;
}

/* The file is in the root: its path says so. */
static void check_inside(int fd)
{
	char link[64], path[PATH_MAX];
	size_t length = strlen(root_path);
	ssize_t got;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, path, sizeof(path) - 1);
	if (got < 0)
		abort();
	path[got] = '\0';
	if (strncmp(path, root_path, length) != 0 || (path[length] && path[length] != '/'))
		abort();
}

static bool kernel_knows(void)
{
	static int known = -1;

	if (known < 0) {
		struct open_how how = { .flags = O_PATH, .resolve = RESOLVE_IN_ROOT };
		int fd = sys_openat2(root_fd, "/", &how);

		known = fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	return known;
}

/* Resolve without changing anything; return the inode, 0 if there is no such file. */
static ino_t compare(const char *path, int flags, uint64_t more)
{
	uint64_t how = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | more;
	int links = 0, error = 0, model = -1, fd;
	ino_t found = 0, walked = 0;

	if (!(more & RESOLVE_NO_SYMLINKS)) {
		model = resolve(0, path, !(flags & O_NOFOLLOW), &links);
		error = errno;
	}
	if (kernel_knows()) {
		walking = false;
		fd = open_below(root_fd, path, O_PATH | flags, how);
		if (!(more & RESOLVE_NO_SYMLINKS) && !(flags & O_DIRECTORY) &&
		    ((fd < 0) != (model < 0) || (fd < 0 && errno != error) ||
		     (fd >= 0 && inode_of(fd) != nodes[model].inode)))
			abort();
		if (fd >= 0) {
			found = inode_of(fd);
			close(fd);
		}
	} else if (model >= 0 && !(flags & O_DIRECTORY)) {
		found = nodes[model].inode;
	}
	walking = true;
	fd = open_below(root_fd, path, O_PATH | flags, how);
	walking = false;
	error = errno;
	if (fd >= 0) {
		check_inside(fd);
		walked = inode_of(fd);
		close(fd);
	}
	/*
	 * It may take "missing/.." for "."; but what is there it finds.  It refuses a link at the end
	 * that is not to be followed, and ".." where no link may be.
	 */
	if (found && walked != found &&
	    (walked || !(error == ENAMETOOLONG || (error == ELOOP && flags & O_NOFOLLOW) ||
			 (error == EXDEV && more & RESOLVE_NO_SYMLINKS))))
		abort();
	return found;
}

static void create(const char *path)
{
	struct executor *x = calloc(1, sizeof(*x));
	const char *name;

	if (!x)
		abort();
	x->root_fd = root_fd;
	x->proc_fd = -1;
	for (int i = 0; i < 8; i++) {
		int fd;

		walking = i & 1;
		fd = i < 2   ? open_parent(x, path, &name) :
		     i < 4   ? open_directory(x, path, 0755) :
		     i < 6   ? open_file(x, path) :
			       open_real_directory(x, path);
		if (fd < 0)
			continue;
		check_inside(fd);
		if (i >= 2 && i < 6 && path[0]) {
			int again;

			walking = false;
			again = open_inside(x, path, O_PATH);
			/* What was just made is what the path leads to, but for "missing/.." and "file/". */
			if (again >= 0 && inode_of(again) != inode_of(fd))
				abort();
			close(again);
		}
		close(fd);
	}
	walking = false;
	free(x);
}

static void empty(int fd)
{
	DIR *stream = fdopendir(dup(fd));
	struct dirent *entry;

	if (!stream)
		abort();
	rewinddir(stream);
	while ((entry = readdir(stream)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0) {
			int inner = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (inner < 0)
				abort();
			empty(inner);
			close(inner);
			if (unlinkat(fd, entry->d_name, AT_REMOVEDIR) < 0)
				abort();
		}
	}
	closedir(stream);
}

static void remove_base(void)
{
	empty(base_fd);
	root_path[strlen(root_path) - strlen("/root")] = '\0';
	(void)rmdir(root_path);
}

/* BASE/root is the root; BASE/out is what no path may reach. */
static void set_up(void)
{
	const char *directory = getenv("TMPDIR");

	(void)snprintf(root_path, sizeof(root_path), "%s/fuzz-XXXXXX", directory ? directory : "/tmp");
	if (!mkdtemp(root_path))
		abort();
	base_fd = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base_fd < 0 || mkdirat(base_fd, "root", 0755) < 0 || mkdirat(base_fd, "out", 0755) < 0)
		abort();
	root_fd = openat(base_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	strcat(root_path, "/root");
	if (root_fd < 0)
		abort();
	atexit(remove_base);
}

static void check_outside(void)
{
	struct stat status;

	if (fstatat(base_fd, "out", &status, AT_SYMLINK_NOFOLLOW) < 0 || status.st_nlink != 2)
		abort();
	if (fstat(base_fd, &status) < 0 || status.st_nlink != 4)
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t size)
{
	const unsigned char *end = input + size;
	char path[TEXT];

	if (root_fd < 0)
		set_up();
	empty(root_fd);
	memset(nodes, 0, sizeof(nodes));
	nodes[0].inode = inode_of(root_fd);
	node_count = 1;
	while (end - input >= 4 && input[0] != 0xff && node_count < MAX_NODES) {
		add(input);
		input += 4;
	}
	if (input < end)
		input++;
	spell(path, input, (size_t)(end - input));
	if (path[0]) {
		(void)compare(path, 0, 0);
		(void)compare(path, O_NOFOLLOW, 0);
		(void)compare(path, O_DIRECTORY, 0);
		(void)compare(path, 0, RESOLVE_NO_SYMLINKS);
		create(path);
	}
	check_outside();
	return 0;
}
