/*
 * Compile a whole seccomp profile to classic BPF with libseccomp, in a single call from Python.
 *
 * This file loads no filter: the filter becomes part of the plan, and the executor loads it.  The
 * caller has checked every value; only names and values unknown to libseccomp or the kernel can
 * still fail.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Names follow one another in filter_request.names; conditions in .conditions. */
struct filter_rule {
	uint32_t action;
	uint32_t names;
	uint32_t conditions;
};

struct filter_condition {
	uint64_t argument;
	uint64_t operator;
	uint64_t first;
	uint64_t second;
};

struct filter_request {
	uint32_t default_action;
	uint32_t optimize;			/* 0: libseccomp's default, 2: binary tree */
	const uint32_t *architectures;		/* AUDIT_ARCH_* (X32: libseccomp's token) */
	uint32_t architecture_count;
	uint32_t rule_count;
	const struct filter_rule *rules;
	const struct filter_condition *conditions;
	const char *names;			/* each with its NUL */
};

/* The step of filter_compile() that has failed. */
enum filter_stage {
	FILTER_DEFAULT_ACTION = 1,
	FILTER_ARCHITECTURE,			/* index: of the architecture */
	FILTER_RULE,				/* index: of the name, over all rules */
	FILTER_EXPORT,
};

struct filter_result {
	uint32_t stage;
	uint32_t index;
	void *program;				/* struct sock_filter array; filter_free() */
	size_t size;				/* bytes */
	uint32_t *highest;			/* per architecture: highest number named, or -1 */
	uint32_t *unknown;			/* indexes of unknown names, over all rules */
	uint32_t unknown_count;
};

static int export_program(scmp_filter_ctx context, struct filter_result *result)
{
#if SCMP_VER_MAJOR > 2 || (SCMP_VER_MAJOR == 2 && SCMP_VER_MINOR >= 6)
	size_t size = 0;
	int rc = seccomp_export_bpf_mem(context, NULL, &size);

	if (rc < 0)
		return rc;
	result->program = malloc(size ? size : 1);
	if (!result->program)
		return -ENOMEM;
	rc = seccomp_export_bpf_mem(context, result->program, &size);
	result->size = size;
	return rc;
#else
	/* Before 2.6 libseccomp writes to a descriptor only. */
	off_t size = 0;
	int fd = memfd_create("seccomp", MFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return -errno;
	rc = seccomp_export_bpf(context, fd);
	if (rc == 0 && (size = lseek(fd, 0, SEEK_END)) < 0)
		rc = -errno;
	if (rc == 0) {
		result->size = (size_t)size;
		result->program = malloc(result->size ? result->size : 1);
		if (!result->program)
			rc = -ENOMEM;
		else if (pread(fd, result->program, result->size, 0) != (ssize_t)result->size)
			rc = -EIO;
	}
	close(fd);
	return rc;
#endif
}

/* For each architecture, find the newest system call that the profile's author knew. */
static void note_highest(const struct filter_request *request, const char *name,
			 uint32_t *highest)
{
	for (uint32_t i = 0; i < request->architecture_count; i++) {
		int number = seccomp_syscall_resolve_name_arch(request->architectures[i], name);

		/* Negative numbers are system calls that the architecture does not have. */
		if (number >= 0 && (highest[i] == UINT32_MAX || (uint32_t)number > highest[i]))
			highest[i] = (uint32_t)number;
	}
}

static int add_rule(scmp_filter_ctx context, const struct filter_rule *rule, int number,
		    const struct filter_condition *conditions)
{
	struct scmp_arg_cmp comparisons[6];

	for (uint32_t i = 0; i < rule->conditions; i++) {
		comparisons[i].arg = (unsigned int)conditions[i].argument;
		comparisons[i].op = (enum scmp_compare)conditions[i].operator;
		comparisons[i].datum_a = conditions[i].first;
		comparisons[i].datum_b = conditions[i].second;
	}
	return seccomp_rule_add_array(context, rule->action, number, rule->conditions,
				      comparisons);
}

static int add_rules(scmp_filter_ctx context, const struct filter_request *request,
		     struct filter_result *result)
{
	const struct filter_condition *conditions = request->conditions;
	const char *name = request->names;
	uint32_t index = 0;

	for (uint32_t r = 0; r < request->rule_count; r++) {
		const struct filter_rule *rule = &request->rules[r];

		for (uint32_t i = 0; i < rule->names; i++, index++, name += strlen(name) + 1) {
			int number = seccomp_syscall_resolve_name(name);
			int rc;

			if (number == __NR_SCMP_ERROR) {
				result->unknown[result->unknown_count++] = index;
				continue;
			}
			note_highest(request, name, result->highest);
			if (rule->action == request->default_action)
				continue;
			rc = add_rule(context, rule, number, conditions);
			if (rc < 0) {
				result->stage = FILTER_RULE;
				result->index = index;
				return rc;
			}
		}
		conditions += rule->conditions;
	}
	return 0;
}

static int build(scmp_filter_ctx context, const struct filter_request *request,
		 struct filter_result *result)
{
	uint32_t total = 0;
	int rc;

	for (uint32_t i = 0; i < request->architecture_count; i++) {
		rc = seccomp_arch_add(context, request->architectures[i]);
		if (rc < 0 && rc != -EEXIST) {
			result->stage = FILTER_ARCHITECTURE;
			result->index = i;
			return rc;
		}
	}
	for (uint32_t i = 0; i < request->rule_count; i++)
		total += request->rules[i].names;
	result->highest = malloc((request->architecture_count + 1) * sizeof(uint32_t));
	result->unknown = malloc((total + 1) * sizeof(uint32_t));
	if (!result->highest || !result->unknown)
		return -ENOMEM;
	memset(result->highest, 0xff, request->architecture_count * sizeof(uint32_t));

	if (request->optimize) {
		rc = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, request->optimize);
		if (rc < 0)
			return rc;
	}
	rc = add_rules(context, request, result);
	if (rc < 0)
		return rc;
	result->stage = FILTER_EXPORT;
	return export_program(context, result);
}

/* Returns 0, or a negative errno and the failed step in result->stage; call filter_free() always. */
static int filter_compile(const struct filter_request *request, struct filter_result *result)
{
	scmp_filter_ctx context;
	int rc;

	memset(result, 0, sizeof(*result));
	result->stage = FILTER_DEFAULT_ACTION;
	context = seccomp_init(request->default_action);
	if (!context)
		return -EINVAL;
	rc = build(context, request, result);
	seccomp_release(context);
	return rc;
}

static void filter_free(struct filter_result *result)
{
	free(result->program);
	free(result->highest);
	free(result->unknown);
	memset(result, 0, sizeof(*result));
}

static uint32_t filter_native(void)
{
	return seccomp_arch_native();
}

/* Return the native number of a system call; negative if this machine does not have it. */
static int filter_number(const char *name)
{
	return seccomp_syscall_resolve_name(name);
}

static void filter_version(unsigned int *parts)
{
	const struct scmp_version *version = seccomp_version();

	parts[0] = version->major;
	parts[1] = version->minor;
	parts[2] = version->micro;
}

/*
 * Return whether the kernel knows these SECCOMP_FILTER_FLAG_* bits: it looks at them before it
 * reads the filter, so a null filter fails with EFAULT if all of them are known.
 */
static int filter_flags_known(unsigned int flags)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL) < 0 && errno == EFAULT;
}

static int filter_action_known(uint32_t action)
{
	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
