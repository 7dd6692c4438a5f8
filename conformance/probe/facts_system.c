/* facts_system.c: namespaces, scheduling, network, and what lies around the process. */
#define _GNU_SOURCE
#include "probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void put_namespaces(void)
{
	static const char *const kinds[] = {"cgroup", "ipc",  "mnt",  "net",
					    "pid",    "time", "user", "uts"};
	put_open("namespaces", '{');
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		char path[64];
		struct stat info;
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		if (stat(path, &info) == 0)
			put_unsigned(kinds[i], info.st_ino);
	}
	put_close('}');
}

void put_system(void)
{
	struct utsname name;
	struct timespec now;
	uname(&name);
	put_text("hostname", name.nodename);
	put_text("domainname", name.domainname);
	put_text("machine", name.machine);
	clock_gettime(CLOCK_MONOTONIC, &now);
	put_number("monotonic_ns", now.tv_sec * 1000000000LL + now.tv_nsec);
	clock_gettime(CLOCK_BOOTTIME, &now);
	put_number("boottime_ns", now.tv_sec * 1000000000LL + now.tv_nsec);
	clock_gettime(CLOCK_REALTIME, &now);
	put_number("realtime_ns", now.tv_sec * 1000000000LL + now.tv_nsec);
}

struct scheduling {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t clamp_min, clamp_max;
};

static void put_io_priority(const char *key, int who)
{
	long value = syscall(SYS_ioprio_get, who, 0);
	put_open(key, '{');
	put_number("class", value >> 13);
	put_number("priority", value & 7);
	put_close('}');
}

void put_scheduling(void)
{
	struct scheduling now;
	memset(&now, 0, sizeof(now));
	if (syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0) == 0) {
		put_open("scheduler", '{');
		put_number("policy", now.policy);
		put_unsigned("flags", now.flags);
		put_number("nice", now.nice);
		put_number("priority", now.priority);
		put_unsigned("runtime", now.runtime);
		put_unsigned("deadline", now.deadline);
		put_unsigned("period", now.period);
		put_close('}');
	}
	put_io_priority("io_priority", 1);
	put_io_priority("io_priority_group", 2);
	cpu_set_t cpus;
	put_open("affinity", '[');
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &cpus))
				put_number(NULL, cpu);
	put_close(']');
}

void put_memory_policy(void)
{
	int mode = 0;
	unsigned long nodes[64] = {0};
	if (syscall(SYS_get_mempolicy, &mode, nodes, sizeof(nodes) * 8, NULL, 0) < 0) {
		put_text("memory_policy", NULL);
		return;
	}
	put_open("memory_policy", '{');
	put_number("mode", mode & 0x1fff);
	put_number("flags", mode & ~0x1fff);
	put_open("nodes", '[');
	for (unsigned node = 0; node < sizeof(nodes) * 8; node++)
		if (nodes[node / 64] >> (node % 64) & 1)
			put_number(NULL, node);
	put_close(']');
	put_close('}');
}

static void put_link(int fd, const char *name)
{
	struct ifreq request;
	memset(&request, 0, sizeof(request));
	snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
	put_number("index", ioctl(fd, SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : -1);
	put_number("flags", ioctl(fd, SIOCGIFFLAGS, &request) == 0 ? request.ifr_flags : -1);
	put_number("mtu", ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : -1);
	if (ioctl(fd, SIOCGIFHWADDR, &request) == 0) {
		char mac[18];
		const unsigned char *byte = (const unsigned char *)request.ifr_hwaddr.sa_data;
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", byte[0], byte[1],
			 byte[2], byte[3], byte[4], byte[5]);
		put_text("mac", mac);
	}
}

static int prefix_of(const struct sockaddr *mask)
{
	const unsigned char *bytes = (const void *)&((const struct sockaddr_in *)mask)->sin_addr;
	int length = 4, prefix = 0;
	if (mask->sa_family == AF_INET6) {
		bytes = (const void *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
		length = 16;
	}
	for (int i = 0; i < length * 8; i++)
		prefix += bytes[i / 8] >> (7 - i % 8) & 1;
	return prefix;
}

static void put_addresses(const struct ifaddrs *all, const char *name)
{
	put_open("addresses", '[');
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		char text[INET6_ADDRSTRLEN], both[INET6_ADDRSTRLEN + 16];
		const void *address = NULL;
		if (!one->ifa_addr || !one->ifa_netmask || strcmp(one->ifa_name, name) != 0)
			continue;
		if (one->ifa_addr->sa_family == AF_INET)
			address = &((const struct sockaddr_in *)one->ifa_addr)->sin_addr;
		if (one->ifa_addr->sa_family == AF_INET6)
			address = &((const struct sockaddr_in6 *)one->ifa_addr)->sin6_addr;
		if (!address || !inet_ntop(one->ifa_addr->sa_family, address, text, sizeof(text)))
			continue;
		snprintf(both, sizeof(both), "%s/%d", text, prefix_of(one->ifa_netmask));
		put_text(NULL, both);
	}
	put_close(']');
}

/* Name -> index, flags, mtu, mac and "address/prefix" list. */
void put_interfaces(void)
{
	struct if_nameindex *names = if_nameindex();
	struct ifaddrs *addresses = NULL;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (!names || fd < 0 || getifaddrs(&addresses) < 0) {
		put_text("interfaces", NULL);
	} else {
		put_open("interfaces", '{');
		for (struct if_nameindex *one = names; one->if_name; one++) {
			put_open(one->if_name, '{');
			put_link(fd, one->if_name);
			put_addresses(addresses, one->if_name);
			put_close('}');
		}
		put_close('}');
		freeifaddrs(addresses);
	}
	if (names)
		if_freenameindex(names);
	if (fd >= 0)
		close(fd);
}

void put_surroundings(char *const *argv)
{
	char text[4096];
	struct stat root;
	put_text("cwd", getcwd(text, sizeof(text)));
	put_texts("argv", argv);
	put_texts("env", environ);
	ssize_t length = readlink("/proc/self/exe", text, sizeof(text));
	put_bytes("exe", text, length > 0 ? (size_t)length : 0);
	if (stat("/", &root) == 0) {
		put_open("root", '{');
		put_unsigned("device", root.st_dev);
		put_unsigned("inode", root.st_ino);
		put_close('}');
	}
}
