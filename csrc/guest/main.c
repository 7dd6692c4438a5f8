/*
 * Process 1 of the machine: set it up, start a guest agent for each app, and power it off.
 *
 * If it is not process 1, this program is an app's proxy on the host (proxy.c).
 */
#define _GNU_SOURCE
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL "/dev/vport0p1"
#define DEVICE_WAIT 10000 /* milliseconds for the drivers to find their devices */
#define PAUSE 10
#define IDLE 1000 /* milliseconds between two rounds of reaping orphans */

static _Noreturn void power_off(void)
{
	sync();
	(void)reboot(RB_POWER_OFF);
	for (;;)
		(void)pause();
}

/* Print an error and power off.  The console is a file on the host; the monitor shows its end. */
static _Noreturn void give_up(const char *what, const char *which)
{
	printf("ocipod: %s %s: %s\n", what, which, strerror(errno));
	(void)fflush(stdout);
	power_off();
}

static void mount_at(const char *kind, const char *target)
{
	(void)mkdir(target, 0755);
	if (mount(kind, target, kind, 0, NULL) < 0)
		give_up("mount", target);
}

static void load_modules(void)
{
	char path[64];

	for (unsigned number = 0;; number++) {
		int fd;

		(void)snprintf(path, sizeof(path), "/modules/%u", number);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
			give_up("load", path);
		close(fd);
	}
}

static int open_control(void)
{
	for (int waited = 0;; waited += PAUSE) {
		int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		if (waited >= DEVICE_WAIT)
			give_up("open", CONTROL);
		(void)poll(NULL, 0, PAUSE);
	}
}

static void mount_shares(void)
{
	static const char options[] = "trans=virtio,version=9p2000.L,msize=262144,cache=mmap";
	char *names = read_whole("/shares", NULL);
	char path[128];

	(void)mkdir("/share", 0755);
	for (char *name = names ? strtok(names, "\n") : NULL; name; name = strtok(NULL, "\n")) {
		(void)snprintf(path, sizeof(path), "/share/%s", name);
		(void)mkdir(path, 0755);
		if (mount(name, path, "9p", 0, options) < 0)
			give_up("mount", path);
	}
	free(names);
}

/* Mount the file system that all apps share as /dev/shm. */
static void mount_shared_memory(void)
{
	char *options = read_whole("/shm-options", NULL);

	(void)mkdir("/shm", 0755);
	if (mount("shm", "/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		give_up("mount", "/shm");
	free(options);
}

static void set_name(void)
{
	size_t size = 0;
	char *name = read_whole("/hostname", &size);

	if (name != NULL && size > 0 && sethostname(name, size) < 0)
		give_up("set the hostname", name);
	free(name);
}

static void connect_networks(void)
{
	char *lines = read_whole("/network", NULL);

	(void)write_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	if (lines != NULL && !set_up_network(lines))
		give_up("set up", "the network");
	free(lines);
}

static void start_agents(void)
{
	char path[64];

	for (unsigned number = 0;; number++) {
		pid_t pid;

		(void)snprintf(path, sizeof(path), "/apps/%u", number);
		if (access(path, R_OK) < 0)
			return;
		pid = fork();
		if (pid < 0)
			give_up("start the guest agent of", path);
		if (pid == 0)
			serve_app(number);
	}
}

int main(void)
{
	struct pollfd control = { .events = POLLIN };
	char byte;

	if (getpid() != 1)
		return run_proxy();
	mount_at("devtmpfs", "/dev");
	for (int fd = 0; fd < 3; fd++) {
		int console = open("/dev/console", O_RDWR | O_NOCTTY);

		if (console >= 0 && console != fd) {
			(void)dup2(console, fd);
			close(console);
		}
	}
	mount_at("proc", "/proc");
	mount_at("sysfs", "/sys");
	mount_at("cgroup2", "/cgroup");
	(void)write_text("/cgroup/cgroup.subtree_control", "+memory +pids +cpu");
	mount_shared_memory();
	load_modules();
	control.fd = open_control();
	mount_shares();
	set_name();
	connect_networks();
	start_agents();
	/* Until the host has connected, the port reports end of file. */
	while (poll(&control, 1, IDLE) <= 0 || !(control.revents & POLLIN) ||
	       read(control.fd, &byte, 1) <= 0) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (control.revents & POLLHUP)
			(void)poll(NULL, 0, PAUSE);
	}
	power_off();
}
