"""Constants of the Linux kernel's interface that several packages use.

This module imports nothing, because almost every other module imports it.  The values come from
include/uapi/linux.  Signals and resource limits have the generic numbers that most architectures
share (x86, arm, riscv, s390, powerpc).
"""

from __future__ import annotations

# --- namespaces: clone(2), setns(2) ---------------------------------------------------------

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

# Name in config.json -> flag.
NAMESPACES: dict[str, int] = {
    "cgroup": CLONE_NEWCGROUP,
    "ipc": CLONE_NEWIPC,
    "mount": CLONE_NEWNS,
    "network": CLONE_NEWNET,
    "pid": CLONE_NEWPID,
    "time": CLONE_NEWTIME,
    "user": CLONE_NEWUSER,
    "uts": CLONE_NEWUTS,
}

# The name in config.json -> the file in /proc/PID/ns.
NAMESPACE_FILES: dict[str, str] = {
    "cgroup": "cgroup",
    "ipc": "ipc",
    "mount": "mnt",
    "network": "net",
    "pid": "pid",
    "time": "time",
    "user": "user",
    "uts": "uts",
}

# --- mounts: mount(2), mount_setattr(2) -------------------------------------------------------

MS_REC = 16384
MS_UNBINDABLE = 1 << 17
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20

MOUNT_ATTR_RDONLY = 0x00000001
MOUNT_ATTR_NOSUID = 0x00000002
MOUNT_ATTR_NODEV = 0x00000004
MOUNT_ATTR_NOEXEC = 0x00000008
MOUNT_ATTR_NOATIME = 0x00000010
MOUNT_ATTR_STRICTATIME = 0x00000020
MOUNT_ATTR__ATIME = 0x00000070  # a mask: the three values above are one field, not bits
MOUNT_ATTR_NODIRATIME = 0x00000080
MOUNT_ATTR_NOSYMFOLLOW = 0x00200000

# --- file types: inode(7) ---------------------------------------------------------------------

S_IFMT = 0o170000
S_IFBLK = 0o060000
S_IFDIR = 0o040000
S_IFCHR = 0o020000
S_IFIFO = 0o010000

# --- signal(7) --------------------------------------------------------------------------------

SIGNALS: dict[str, int] = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGILL": 4,
    "SIGTRAP": 5,
    "SIGABRT": 6,
    "SIGIOT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGUSR1": 10,
    "SIGSEGV": 11,
    "SIGUSR2": 12,
    "SIGPIPE": 13,
    "SIGALRM": 14,
    "SIGTERM": 15,
    "SIGSTKFLT": 16,
    "SIGCHLD": 17,
    "SIGCLD": 17,
    "SIGCONT": 18,
    "SIGSTOP": 19,
    "SIGTSTP": 20,
    "SIGTTIN": 21,
    "SIGTTOU": 22,
    "SIGURG": 23,
    "SIGXCPU": 24,
    "SIGXFSZ": 25,
    "SIGVTALRM": 26,
    "SIGPROF": 27,
    "SIGWINCH": 28,
    "SIGIO": 29,
    "SIGPOLL": 29,
    "SIGPWR": 30,
    "SIGSYS": 31,
    "SIGUNUSED": 31,
}
SIGHUP = 1
SIGKILL = 9
SIGPIPE = 13
SIGTERM = 15
SIGCHLD = 17
SIGCONT = 18
SIGSTOP = 19
SIGURG = 23
SIGWINCH = 28
SIGRTMIN = 34  # as in glibc and musl, which reserve the kernel's first real-time signals
SIGRTMAX = 64

# --- getrlimit(2) -----------------------------------------------------------------------------

RLIMITS: dict[str, int] = {
    "RLIMIT_CPU": 0,
    "RLIMIT_FSIZE": 1,
    "RLIMIT_DATA": 2,
    "RLIMIT_STACK": 3,
    "RLIMIT_CORE": 4,
    "RLIMIT_RSS": 5,
    "RLIMIT_NPROC": 6,
    "RLIMIT_NOFILE": 7,
    "RLIMIT_MEMLOCK": 8,
    "RLIMIT_AS": 9,
    "RLIMIT_LOCKS": 10,
    "RLIMIT_SIGPENDING": 11,
    "RLIMIT_MSGQUEUE": 12,
    "RLIMIT_NICE": 13,
    "RLIMIT_RTPRIO": 14,
    "RLIMIT_RTTIME": 15,
}
RLIM_INFINITY = 0xFFFFFFFFFFFFFFFF

# --- sched_setattr(2), ioprio_set(2), set_mempolicy(2), personality(2) --------------------------

SCHEDULERS: dict[str, int] = {
    "SCHED_OTHER": 0,
    "SCHED_FIFO": 1,
    "SCHED_RR": 2,
    "SCHED_BATCH": 3,
    "SCHED_ISO": 4,
    "SCHED_IDLE": 5,
    "SCHED_DEADLINE": 6,
}
SCHEDULER_FLAGS: dict[str, int] = {
    "SCHED_FLAG_RESET_ON_FORK": 0x01,
    "SCHED_FLAG_RECLAIM": 0x02,
    "SCHED_FLAG_DL_OVERRUN": 0x04,
    "SCHED_FLAG_KEEP_POLICY": 0x08,
    "SCHED_FLAG_KEEP_PARAMS": 0x10,
    "SCHED_FLAG_UTIL_CLAMP_MIN": 0x20,
    "SCHED_FLAG_UTIL_CLAMP_MAX": 0x40,
}

IO_PRIORITIES: dict[str, int] = {
    "IOPRIO_CLASS_RT": 1,
    "IOPRIO_CLASS_BE": 2,
    "IOPRIO_CLASS_IDLE": 3,
}
IOPRIO_CLASS_SHIFT = 13

MEMORY_POLICIES: dict[str, int] = {
    "MPOL_DEFAULT": 0,
    "MPOL_PREFERRED": 1,
    "MPOL_BIND": 2,
    "MPOL_INTERLEAVE": 3,
    "MPOL_LOCAL": 4,
    "MPOL_PREFERRED_MANY": 5,
    "MPOL_WEIGHTED_INTERLEAVE": 6,
}
MEMORY_POLICY_FLAGS: dict[str, int] = {
    "MPOL_F_NUMA_BALANCING": 1 << 13,
    "MPOL_F_RELATIVE_NODES": 1 << 14,
    "MPOL_F_STATIC_NODES": 1 << 15,
}

PERSONALITIES: dict[str, int] = {"LINUX": 0x0000, "LINUX32": 0x0008}

# The devices that every container has (config-linux.md, default devices): path -> numbers.
DEFAULT_DEVICES: dict[str, tuple[int, int]] = {
    "/dev/null": (1, 3),
    "/dev/zero": (1, 5),
    "/dev/full": (1, 7),
    "/dev/random": (1, 8),
    "/dev/urandom": (1, 9),
    "/dev/tty": (5, 0),
}
