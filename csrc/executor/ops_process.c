/* Operations for limits, scheduling and the loopback interface. */
#include "executor.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/sched/types.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel.h"

#define IOPRIO_WHO_PGRP 2

int run_loopback(struct executor *x, struct op_loopback *op)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result = 0;
	struct ifreq request = { .ifr_name = "lo" };

	(void)op;
	if (fd < 0) /* the kernel has no IPv4: try IPv6 */
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(x, "socket", "lo");
	if (ioctl(fd, SIOCGIFFLAGS, &request) < 0) {
		result = fail(x, "ioctl", "lo");
	} else {
		request.ifr_flags |= IFF_UP;
		if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
			result = fail(x, "ioctl", "lo");
	}
	close(fd);
	return result;
}

static int set_limit(struct executor *x, uint32_t resource, uint64_t soft, uint64_t hard)
{
	struct rlimit64 limit = { .rlim_cur = soft, .rlim_max = hard };

	return syscall(SYS_prlimit64, 0, resource, &limit, NULL) < 0 ? fail(x, "prlimit", "") : 0;
}

/*
 * Postpone a limit until the program is executed: the start gate needs a descriptor and a hook's
 * state is written to a file, whatever the program's limits are.  A higher hard limit is set now,
 * because raising it needs privileges.
 */
static int set_late(struct executor *x, struct late_limit *late, struct op_rlimit *op)
{
	struct rlimit64 now;

	errno = EINVAL;
	if (op->soft > op->hard || syscall(SYS_prlimit64, 0, op->resource, NULL, &now) < 0)
		return fail(x, "prlimit", "");
	*late = (struct late_limit){ op->resource, true, op->soft, op->hard };
	return op->hard > now.rlim_max ? set_limit(x, op->resource, now.rlim_cur, op->hard) : 0;
}

int apply_late_limits(struct executor *x)
{
	for (int i = 0; i < LATE_LIMITS; i++) {
		struct late_limit *late = &x->late_limits[i];

		if (late->set && set_limit(x, late->resource, late->soft, late->hard) < 0)
			return -1;
		late->set = false;
	}
	return 0;
}

int run_rlimit(struct executor *x, struct op_rlimit *op)
{
	if (op->resource == RLIMIT_NOFILE)
		return set_late(x, &x->late_limits[0], op);
	if (op->resource == RLIMIT_FSIZE)
		return set_late(x, &x->late_limits[1], op);
	/* To join a pid namespace, the process forks as the user: allow one more process. */
	if (op->resource == RLIMIT_NPROC && (x->joined || x->pid_fd >= 0))
		return set_late(x, &x->late_limits[2], op);
	return set_limit(x, op->resource, op->soft, op->hard);
}

int run_personality(struct executor *x, struct op_personality *op)
{
	return personality(op->domain) < 0 ? fail(x, "personality", "") : 0;
}

/* The largest NR_CPUS. The kernel ignores CPUs that do not exist or that the cpuset forbids. */
enum { MAX_CPUS = 8192 };

int run_affinity(struct executor *x, struct op_affinity *op)
{
	unsigned char all[MAX_CPUS / 8];

	if (op->cpus.size == 0) {
		memset(all, 0xff, sizeof(all));
		/* Ignore errors: an outer seccomp filter may deny the call. */
		(void)syscall(SYS_sched_setaffinity, 0, sizeof(all), all);
		return 0;
	}
	return syscall(SYS_sched_setaffinity, 0, op->cpus.size, op->cpus.data) < 0
		       ? fail(x, "sched_setaffinity", "")
		       : 0;
}

int run_io_priority(struct executor *x, struct op_io_priority *op)
{
	return syscall(SYS_ioprio_set, IOPRIO_WHO_PGRP, 0, op->value) < 0
		       ? fail(x, "ioprio_set", "")
		       : 0;
}

int run_scheduler(struct executor *x, struct op_scheduler *op)
{
	struct sched_attr attributes = {
		.size = sizeof(attributes),
		.sched_policy = op->policy,
		.sched_flags = op->flags,
		.sched_nice = (int32_t)op->nice,
		.sched_priority = op->priority,
		.sched_runtime = op->runtime,
		.sched_deadline = op->deadline,
		.sched_period = op->period,
	};

	return syscall(SYS_sched_setattr, 0, &attributes, 0) < 0 ? fail(x, "sched_setattr", "") : 0;
}

int run_memory_policy(struct executor *x, struct op_memory_policy *op)
{
	size_t size = op->nodes.size;

	/* The kernel uses one bit less than the number that it is given. */
	return syscall(SYS_set_mempolicy, op->mode, size ? op->nodes.data : NULL,
		       size ? 8 * size + 1 : 0) < 0
		       ? fail(x, "set_mempolicy", "")
		       : 0;
}
