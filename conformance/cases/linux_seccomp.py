"""config-linux.md: seccomp."""

from __future__ import annotations

import os
import signal
from typing import Any

from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context

# What a runtime and the probe may need between the filter and the test; getsid, which the
# tests are about, is not among them.
NEEDED = """
    access arch_prctl bind brk capget capset chdir clock_gettime clock_nanosleep clone clone3
    close close_range connect dup dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait
    eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fchdir fchmod fchown
    fcntl flock fstat fstatfs futex getcwd getdents64 getegid geteuid getgid getgroups getpgid
    getpid getppid getrandom getresgid getresuid getrlimit gettid gettimeofday getuid ioctl kill
    lseek lstat madvise membarrier memfd_create mmap mprotect mremap munmap nanosleep newfstatat
    open openat openat2 pause pipe pipe2 poll ppoll prctl pread64 prlimit64 pwrite64 read
    readlink readlinkat readv recvfrom recvmsg restart_syscall rseq rt_sigaction rt_sigprocmask
    rt_sigreturn sched_getaffinity sched_yield seccomp select sendmsg sendto set_robust_list
    set_tid_address setgid setgroups setresgid setresuid setsid setuid sigaltstack socket
    socketpair stat statfs statx tgkill umask uname unlink unlinkat wait4 waitid write writev
""".split()
RETURN_NO_NUMBER = (
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_TRAP",
    "SCMP_ACT_LOG",
    "SCMP_ACT_ALLOW",
)
HIGH = 1 << 32


def with_rule(c: Context, *actions: str, seccomp: Any = None, **rule: Any) -> Bundle:
    """Return a bundle with a filter that allows all calls and has one rule for getsid.

    By default, the rule has the action ERRNO with ENOSYS.  A member that is None is left out.
    """
    bundle = c.bundle(*actions)
    whole = {"names": ["getsid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38} | rule
    whole = {key: value for key, value in whole.items() if value is not None}
    filter = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [whole]} | (seccomp or {})
    bundle.linux["seccomp"] = {key: value for key, value in filter.items() if value is not None}
    return bundle


def with_list(c: Context, action: str = "SCMP_ACT_ALLOW", **seccomp: Any) -> Bundle:
    """Return a bundle with a filter that defaults to ERRNO and a rule for ``NEEDED``."""
    bundle = c.bundle("syscall getsid 0")
    bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{"names": NEEDED, "action": action}],
    } | seccomp
    return bundle


def errors(c: Context, bundle: Bundle) -> list[str | None]:
    """Run the bundle; return the error of each of the program's calls, None for success."""
    box = c.run(bundle)
    c.equal(box.exit_status, 0, "exit status of the program")
    return [None if report["error"] == "ok" else report["error"] for report in box.reports]


@case("LNX-SECC-01")
def no_default(c: Context) -> None:
    """A filter without defaultAction is rejected."""
    c.refused_beside(
        with_rule(c), with_rule(c, seccomp={"defaultAction": None}), "no defaultAction"
    )


@case("LNX-SECC-01")
def bad_default(c: Context) -> None:
    """A defaultAction that does not exist is rejected."""
    bad = with_rule(c, seccomp={"defaultAction": "SCMP_ACT_MAYBE"})
    c.refused_beside(with_rule(c), bad, "the action SCMP_ACT_MAYBE")


@table(*((action,) for action in RETURN_NO_NUMBER), ids="LNX-SECC-02")
def default_number(c: Context, action: str) -> None:
    """A defaultErrnoRet with the defaultAction {0} is rejected."""
    # All that a runtime needs is allowed: one that takes the config is to come to its end.
    bad = with_list(c, defaultAction=action, defaultErrnoRet=38)
    c.refused_beside(with_list(c), bad, f"defaultErrnoRet with {action}")


@table(("none", None, "EPERM"), ("ENOSYS", 38, "ENOSYS"), ("0", 0, None), ids="LNX-SECC-03")
def error_of_rule(c: Context, _name: str, number: int | None, error: str | None) -> None:
    """A call that matches a rule returns the rule's errnoRet: {0}."""
    c.equal(errors(c, with_rule(c, "syscall getsid 0", errnoRet=number)), [error], "error")


@table(("none", None, "EPERM"), ("ENOSYS", 38, "ENOSYS"), ids="LNX-SECC-03")
def error_of_default(c: Context, _name: str, number: int | None, error: str) -> None:
    """A call that matches no rule returns defaultErrnoRet: {0}."""
    bundle = with_list(c)
    if number is not None:
        bundle.linux["seccomp"]["defaultErrnoRet"] = number
    c.equal(errors(c, bundle), [error], "error")


# --- architectures and flags ---


@table(("SCMP_ARCH_VAX",), ("x86_64",), ("",), ids="LNX-SECC-04")
def bad_architecture(c: Context, name: str) -> None:
    """The architecture {0!r} is rejected."""
    bad = with_rule(c, seccomp={"architectures": [name]})
    c.refused_beside(with_rule(c), bad, f"the architecture {name!r}")


# All with the byte order of the usual machines: one filter cannot have both.
@table(
    ("SCMP_ARCH_X86",),
    ("SCMP_ARCH_X86_64",),
    ("SCMP_ARCH_X32",),
    ("SCMP_ARCH_ARM",),
    ("SCMP_ARCH_AARCH64",),
    ("SCMP_ARCH_MIPSEL",),
    ("SCMP_ARCH_MIPSEL64",),
    ("SCMP_ARCH_MIPSEL64N32",),
    ("SCMP_ARCH_PPC64LE",),
    ids="LNX-SECC-04",
)
def architecture(c: Context, name: str) -> None:
    """{0} is accepted, and the rules apply to native system calls."""
    bundle = with_rule(c, "syscall getsid 0", seccomp={"architectures": [name]})
    c.equal(errors(c, bundle), ["ENOSYS"], "error")


@table(("listed", ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]), ("absent", None), ids="LNX-SECC-04")
def calls_of_32_bits(c: Context, _name: str, architectures: Any) -> None:
    """Calls through the 32-bit entry cannot bypass the filter if X86 is {0}.

    If X86 is listed, the rules apply to them.
    """
    if os.uname().machine != "x86_64":
        c.skip("needs an x86-64 machine")
    host = c.probe_on_host("syscall32 147 0")
    if not host.ok or host.json()["error"] != "ok":
        c.skip("the kernel has no 32-bit calls")
    bundle = with_rule(c, "syscall32 147 0", seccomp={"architectures": architectures})
    box = c.run(bundle)
    if architectures:
        c.equal([report["error"] for report in box.reports], ["ENOSYS"], "error of getsid")
    else:
        c.expect(
            box.exit_status == -signal.SIGSYS or box.reports[0]["error"] != "ok",
            "a call of another architecture was let through",
        )


@table(("SECCOMP_FILTER_FLAG_ALL",), ("TSYNC",), ("",), ids="LNX-SECC-05")
def bad_flag(c: Context, name: str) -> None:
    """The flag {0!r} is rejected."""
    bad = with_rule(c, seccomp={"flags": [name]})
    c.refused_beside(with_rule(c, seccomp={"flags": []}), bad, f"the flag {name!r}")


@table(
    ("TSYNC",),
    ("LOG",),
    ("SPEC_ALLOW",),
    ids="LNX-SECC-05",
)
def flag(c: Context, name: str) -> None:
    """The flag {0} is accepted, and the rules apply."""
    flags = [f"SECCOMP_FILTER_FLAG_{name}"]
    bundle = with_rule(c, "syscall getsid 0", seccomp={"flags": flags})
    c.equal(errors(c, bundle), ["ENOSYS"], "error")


# --- rules ---


@table(("names",), ("action",), ids="LNX-SECC-06")
def incomplete_rule(c: Context, key: str) -> None:
    """A rule without {0} is rejected."""
    bad = with_rule(c, errnoRet=None)
    del bad.linux["seccomp"]["syscalls"][0][key]
    c.refused_beside(with_rule(c, errnoRet=None), bad, f"no {key}")


@case("LNX-SECC-06")
def several_names(c: Context) -> None:
    """A rule applies to all of its names."""
    bundle = with_rule(c, "syscall getsid 0", "syscall getpriority 0 0", "syscall getpid")
    bundle.linux["seccomp"]["syscalls"][0]["names"] = ["getsid", "getpriority"]
    c.equal(errors(c, bundle), ["ENOSYS", "ENOSYS", None], "errors")


@case("LNX-SECC-07")
def no_names(c: Context) -> None:
    """A rule with an empty list of names is rejected."""
    c.refused_beside(with_rule(c), with_rule(c, names=[]), "a rule with no name")


@table(*((action,) for action in RETURN_NO_NUMBER[:-1]), ids="LNX-SECC-08")
def number_of_rule(c: Context, action: str) -> None:
    """An errnoRet with the action {0} is rejected."""
    sound = with_rule(c, action=action, errnoRet=None)
    c.refused_beside(sound, with_rule(c, action=action), f"errnoRet with {action}")


@case("LNX-SECC-08")
def number_of_allowing_rule(c: Context) -> None:
    """An errnoRet with the action ALLOW is rejected."""
    sound, bad = with_list(c), with_list(c)
    bad.linux["seccomp"]["syscalls"][0]["errnoRet"] = 38
    c.refused_beside(sound, bad, "errnoRet with SCMP_ACT_ALLOW")


CONDITION = {"index": 0, "value": 5, "op": "SCMP_CMP_EQ"}


@table(("index",), ("value",), ("op",), ids="LNX-SECC-09")
def incomplete_condition(c: Context, key: str) -> None:
    """A condition without {0} is rejected."""
    args = [{name: value for name, value in CONDITION.items() if name != key}]
    c.refused_beside(with_rule(c, args=[CONDITION]), with_rule(c, args=args), f"no {key}")


@table(
    ("index 6", {"index": 6}),
    ("index -1", {"index": -1}),
    ("value -1", {"value": -1}),
    ("value of 65 bits", {"value": 1 << 64}),
    ("value as text", {"value": "5"}),
    ("op", {"op": "SCMP_CMP_SAME"}),
    ids="LNX-SECC-09",
)
def bad_condition(c: Context, name: str, change: Any) -> None:
    """A condition with an invalid value is rejected: {0}."""
    bad = with_rule(c, args=[CONDITION | change])
    c.refused_beside(with_rule(c, args=[CONDITION]), bad, f"{name}: {change}")


# --- actions ---


@table(
    ("SCMP_ACT_KILL",),
    ("SCMP_ACT_KILL_THREAD",),
    ("SCMP_ACT_KILL_PROCESS",),
    ("SCMP_ACT_TRAP",),
    ids="LNX-SECC-10",
)
def ending_action(c: Context, action: str) -> None:
    """{0} kills the program with SIGSYS."""
    bundle = with_rule(c, "syscall getsid 0", "exit 3", action=action, errnoRet=None)
    c.equal(c.run(bundle).exit_status, -signal.SIGSYS, "end of the program")


@table(
    ("SCMP_ACT_ERRNO", "EPERM"),
    ("SCMP_ACT_TRACE", "ENOSYS"),
    ("SCMP_ACT_LOG", None),
    ids="LNX-SECC-10",
)
def other_action(c: Context, action: str, error: str | None) -> None:
    """{0} lets the program continue; TRACE returns ENOSYS if there is no tracer."""
    bundle = with_rule(c, "syscall getsid 0", action=action, errnoRet=None)
    c.equal(errors(c, bundle), [error], "error")


@table(("SCMP_ACT_ALLOW",), ("SCMP_ACT_LOG",), ids="LNX-SECC-10")
def allowing_action(c: Context, action: str) -> None:
    """{0} allows calls that the default action would not allow."""
    bundle = with_list(c)
    bundle.does("syscall getsid 0", "syscall getpriority 0 0")
    bundle.linux["seccomp"]["syscalls"].append({"names": ["getsid"], "action": action})
    c.equal(errors(c, bundle), [None, "EPERM"], "errors of getsid and getpriority")


# --- operators ---


@table(
    ("NE", 5, None, (4, 6, HIGH + 5), (5,)),
    ("LT", 5, None, (4, 0), (5, 6, HIGH)),
    ("LE", 5, None, (4, 5), (6, HIGH)),
    ("EQ", 5, None, (5,), (4, 6, HIGH + 5)),
    ("GE", 5, None, (5, 6, HIGH), (4,)),
    ("GT", 5, None, (6, HIGH), (5, 4)),
    ("MASKED_EQ", 0xF0, 0x30, (0x30, 0x35, HIGH + 0x30), (0x45, 0)),
    ids="LNX-SECC-11",
)
def operator(c: Context, name: str, value: int, two: int | None, hit: Any, missed: Any) -> None:
    """SCMP_CMP_{0} is true only for the right arguments."""
    compare(c, name, value, two, hit, missed)


@table(
    ("NE", HIGH + 5, None, (5, HIGH), (HIGH + 5,)),
    ("LT", HIGH + 5, None, (6, HIGH + 4), (HIGH + 5, 2 * HIGH)),
    ("LE", HIGH + 5, None, (6, HIGH + 5), (HIGH + 6, 2 * HIGH)),
    ("EQ", HIGH + 5, None, (HIGH + 5,), (5, HIGH)),
    ("GE", HIGH + 5, None, (HIGH + 5, 2 * HIGH), (6, HIGH + 4)),
    ("GT", HIGH + 5, None, (HIGH + 6, 2 * HIGH), (6, HIGH + 5)),
    ("MASKED_EQ", 0xF0 * HIGH, 0x30 * HIGH, (0x35 * HIGH, 0x30 * HIGH + 7), (0x30, 0x45 * HIGH)),
    ids="LNX-SECC-11",
)
def operator_64(c: Context, name: str, value: int, two: int | None, hit: Any, missed: Any) -> None:
    """SCMP_CMP_{0} compares all 64 bits."""
    compare(c, name, value, two, hit, missed)


@case("LNX-SECC-11")
def highest_value(c: Context) -> None:
    """A value may use all 64 bits."""
    compare(c, "EQ", (1 << 64) - 1, None, ((1 << 64) - 1,), (HIGH - 1, 1 << 63))


def compare(c: Context, name: str, value: int, two: int | None, hit: Any, missed: Any) -> None:
    """Require that the rule matches all arguments in ``hit`` and none in ``missed``."""
    condition = {"index": 0, "value": value, "op": f"SCMP_CMP_{name}"}
    if two is not None:
        condition["valueTwo"] = two
    actions = [f"syscall getsid {argument}" for argument in (*hit, *missed)]
    found = [
        error == "EXDEV"
        for error in errors(c, with_rule(c, *actions, errnoRet=18, args=[condition]))
    ]
    got = dict(zip((*hit, *missed), found, strict=True))
    c.equal(got, {number: number in hit for number in got}, "arguments that the rule holds for")


@case("LNX-SECC-11")
def conditions_together(c: Context) -> None:
    """A rule with conditions on several arguments matches only if all are true."""
    args = [CONDITION, {"index": 1, "value": 7, "op": "SCMP_CMP_EQ"}]
    actions = [f"syscall getsid {words}" for words in ("5 7", "5 8", "4 7")]
    found = errors(c, with_rule(c, *actions, errnoRet=18, args=args))
    c.equal([error == "EXDEV" for error in found], [True, False, False], "what the rule holds for")


@case("LNX-SECC-11")
def last_argument(c: Context) -> None:
    """A condition can test the sixth argument."""
    args = [CONDITION | {"index": 5}]
    actions = [f"syscall getsid {words}" for words in ("0 0 0 0 0 5", "0 0 0 0 0 6", "5")]
    found = errors(c, with_rule(c, *actions, errnoRet=18, args=args))
    c.equal([error == "EXDEV" for error in found], [True, False, False], "what the rule holds for")
