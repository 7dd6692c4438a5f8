/*
 * Set up the machine's network devices from /network; one setting a line, with the device's number:
 *
 *   a N ADDRESS MASK                    the device's address
 *   r N DESTINATION MASK [GATEWAY]      a route through the device
 */
#define _GNU_SOURCE
#include "guest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void fill(struct sockaddr *into, const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	(void)inet_pton(AF_INET, text, &address.sin_addr);
	memcpy(into, &address, sizeof(address));
}

static bool set_address(int fd, const char *device, const char *address, const char *mask)
{
	struct ifreq request = { 0 };

	(void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	fill(&request.ifr_addr, address);
	if (ioctl(fd, SIOCSIFADDR, &request) < 0)
		return false;
	fill(&request.ifr_netmask, mask);
	if (ioctl(fd, SIOCSIFNETMASK, &request) < 0)
		return false;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static bool add_route(int fd, char *device, const char *target, const char *mask,
		      const char *gateway)
{
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = device };

	fill(&route.rt_dst, target);
	fill(&route.rt_genmask, mask);
	if (gateway[0] != '\0') {
		route.rt_flags |= RTF_GATEWAY;
		fill(&route.rt_gateway, gateway);
	}
	return ioctl(fd, SIOCADDRT, &route) == 0 || errno == EEXIST;
}

bool set_up_network(char *lines)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;

	for (char *line = strtok(lines, "\n"); done && line; line = strtok(NULL, "\n")) {
		char kind, device[16], first[16] = "", second[16] = "", third[16] = "";
		unsigned number;

		if (sscanf(line, "%c %u %15s %15s %15s", &kind, &number, first, second, third) < 4)
			continue;
		(void)snprintf(device, sizeof(device), "eth%u", number);
		done = kind == 'a' ? set_address(fd, device, first, second) :
				     add_route(fd, device, first, second, third);
	}
	if (fd >= 0)
		close(fd);
	return done;
}
