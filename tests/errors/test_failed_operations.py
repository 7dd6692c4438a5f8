"""Messages for the executor's failures: the setting, the attempt, the errno, the hint."""

from __future__ import annotations

import errno

import pytest

from ociruntime.base.errors import HookError, StepError
from ociruntime.runtime.executor.failure_messages import HINTS, ending, failure
from ociruntime.runtime.executor.protocol import LONG, Message
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import MESSAGE_FAILURE, NO_SLOT, OPERATIONS
from ociruntime.runtime.plan.plan import Operation


def record(call: str, error: int, argument: str = "", detail: str = "") -> Message:
    texts = (text.encode() for text in (call, argument, detail))
    return Message(LONG.pack(MESSAGE_FAILURE, 0, 0, error, *texts))


def mount(fstype: str, where: str = "mounts[2]") -> Operation:
    return o.mount(
        fstype=fstype, source=fstype, target="/there", options=[], attributes=0, propagation=0,
        flags=0, where=where, id_map=NO_SLOT, label="",
    )  # fmt: skip


def hook(where: str = "hooks.createContainer[1]") -> Operation:
    return o.hook(
        source="/bin/hook", args=["hook"], env=[], with_home=0, timeout=5,
        state_before="", state_after="",
        where=where,
    )  # fmt: skip


BIND = o.bind(
    slot=NO_SLOT, source="/from", target="/to", recursive=1, set_attributes=0,
    clear_attributes=0, set_recursive=0, clear_recursive=0, propagation=0, flags=0,
    where="mounts[1]", id_map=NO_SLOT, id_map_recursive=0,
)  # fmt: skip
FIND = o.find_executable(file="tool", path="/bin:/usr/bin", where="process.args[0]")
EXEC = o.exec(args=["/bin/tool"], env=[], where="process.args")
SECCOMP = o.seccomp(flags=0, last=1, filter=b"", where="linux.seccomp")
USER = o.user(uid=1000, gid=50, groups=[], set_groups=1, where="process.user")
KILLED = " and was killed"
MASK = o.mask(target="/proc/kcore", context="", where="linux.maskedPaths[2]")

OOM_SCORE = o.write_proc(path="self/oom_score_adj", data="-5", where="process.oomScoreAdj")

# (operation, call, errno, argument, detail, sentence, hint's begin)
SENTENCES: list[tuple[Operation, str, int, str, str, str, str]] = [
    (
        OOM_SCORE, "write", errno.EACCES, "self/oom_score_adj", "",
        'process.oomScoreAdj: write "/proc/self/oom_score_adj": permission denied',
        "lowering the score below the caller's needs CAP_SYS_RESOURCE",
    ),
    (
        mount("devpts"), "fsconfig", errno.EINVAL, "gid=5", "e devpts: Invalid gid '5'\n",
        "mounts[2]: mount devpts on \"/there\": invalid argument (devpts: Invalid gid '5')",
        "gid=5 is not mapped in the container's user namespace",
    ),
    (
        o.set_attributes(
            target="/there", set_attributes=1, clear_attributes=0, recursive=0, propagation=0,
            where="mounts[2]",
        ),
        "verify", errno.ESTALE, "/there", "",
        'mounts[2]: change mount "/there": stale file handle',
        "the path no longer leads to the mount just created",
    ),
    (
        mount("nosuchfs"), "fsopen", errno.ENODEV, "nosuchfs", "",
        'mounts[2]: mount nosuchfs on "/there": no such device',
        "the kernel does not know this filesystem type",
    ),
    (
        mount("tmpfs"), "fsconfig", errno.EINVAL, "sise=4k", "e tmpfs: Unknown parameter 'sise'\n",
        "mounts[2]: mount tmpfs on \"/there\": invalid argument (tmpfs: Unknown parameter 'sise')",
        "",
    ),
    (
        mount("overlay"), "fsconfig", errno.EINVAL, "create", "w overlay: a\ne overlay: b\n",
        'mounts[2]: mount overlay on "/there": invalid argument (overlay: a; overlay: b)', "",
    ),
    (
        mount("overlay"), "mount", errno.ENAMETOOLONG, "options", "",
        'mounts[2]: mount overlay on "/there": file name too long',
        "the kernel accepts at most 4095 bytes of mount options",
    ),
    (
        mount("proc"), "fsconfig", errno.EPERM, "create", "",
        'mounts[2]: mount proc on "/there": operation not permitted',
        "a user namespace may mount proc only with a pid namespace of its own",
    ),
    (
        mount("proc", where=""), "open", errno.ELOOP, "/there", "",
        'mount proc on "/there": too many levels of symbolic links',
        "the destination is or contains a symbolic link, which is not followed",
    ),
    (
        BIND, "open_tree", errno.ENOENT, "/from", "",
        'mounts[1].source: "/from" does not exist: no such file or directory', "",
    ),
    (
        BIND, "open", errno.EISDIR, "/to", "",
        'mounts[1]: bind "/from" on "/to": is a directory',
        "source and destination must both be directories or both be files",
    ),
    (
        BIND, "open", errno.EACCES, "/to", "",
        'mounts[1]: bind "/from" on "/to": permission denied', "",
    ),
    (MASK, "open", errno.EIO, "/proc/kcore", "",
        'linux.maskedPaths[2]: mask "/proc/kcore": input/output error', "",
    ),
    (
        USER, "setresuid", errno.EINVAL, "", "",
        "process.user: switch to user 1000:50: invalid argument",
        "the user namespace does not map this uid or gid",
    ),
    (
        o.rlimit(resource=7, soft=9, hard=99, where="process.rlimits[0]"),
        "prlimit", errno.EPERM, "", "",
        "process.rlimits[0]: set limit nofile to 9 (hard: 99): operation not permitted",
        "raising a hard limit needs CAP_SYS_RESOURCE on the host",
    ),
    (
        FIND, "search", errno.ENOENT, "tool", "",
        'exec: "tool": executable file not found in $PATH',
        "process.args[0]; PATH in the container is /bin:/usr/bin",
    ),
    (
        FIND, "search", errno.EACCES, "tool", "",
        'exec: "tool": permission denied',
        "process.args[0] must be a file that the user may execute, not on a noexec mount",
    ),
    (
        FIND, "find", errno.ENOENT, "tool", "",
        'exec: "tool": no such file or directory',
        "process.args[0] does not exist in the container",
    ),
    (
        FIND, "find", errno.EISDIR, "tool", "",
        'exec: "tool": is a directory', "process.args[0] must be a program",
    ),
    (
        FIND, "find", errno.EIO, "tool", "",
        'exec: "tool": input/output error', "process.args[0]",
    ),
    (
        EXEC, "execve", errno.ENOENT, "/bin/tool", "",
        'exec: "/bin/tool": no such file or directory',
        (
            "the interpreter in the script's first line, or the program's dynamic loader, does"
            " not exist in the container"
        ),
    ),
    (
        EXEC, "execve", errno.ENOEXEC, "/bin/tool", "",
        'exec: "/bin/tool": exec format error',
        "neither a program for this machine's architecture nor a script",
    ),
    (EXEC, "execve", errno.EIO, "/bin/tool", "", 'exec: "/bin/tool": input/output error', ""),
    (
        SECCOMP, "seccomp", errno.EINVAL, "", "",
        "linux.seccomp: load the seccomp filter: invalid argument",
        "the kernel rejects the filter or one of linux.seccomp.flags",
    ),
    (
        hook(), "execve", errno.ENOENT, "/bin/hook", "",
        'hooks.createContainer[1].path: "/bin/hook": no such file or directory', "",
    ),
    (
        hook(), "hook timeout", 5, "/bin/hook", "",
        'hooks.createContainer[1]: "/bin/hook" did not end within its timeout of 5 s' + KILLED, "",
    ),
    (
        hook(), "hook", 3 << 8, "/bin/hook", "the reason\n",
        'hooks.createContainer[1]: "/bin/hook" exited with status 3; its output: the reason', "",
    ),
    (
        hook(), "hook", 11, "/bin/hook", "",
        'hooks.createContainer[1]: "/bin/hook" was killed by signal 11', "",
    ),
    (hook(), "fork", errno.EAGAIN, "/bin/hook", "",
        "hooks.createContainer[1]: fork: resource temporarily unavailable", "",
    ),
    (
        FIND, "read", errno.EBADMSG, "plan", "",
        "read the plan in the executor: bad message", "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "call", "error", "argument", "detail", "sentence", "hint"),
    SENTENCES,
    ids=[sentence for *_, sentence, _ in SENTENCES],
)
def test_sentence(
    operation: Operation,
    call: str,
    error: int,
    argument: str,
    detail: str,
    sentence: str,
    hint: str,
) -> None:
    said = failure(operation, record(call, error, argument, detail))
    assert said.message == sentence
    assert said.hint.startswith(hint)
    assert bool(said.hint) == bool(hint)


@pytest.mark.parametrize("name", ["plan", "read"])
def test_program_called_plan(name: str) -> None:
    """The executor's word for its own input is also a file name."""
    said = failure(o.find_executable(file=name, path="/bin"), record("search", errno.ENOENT, name))
    assert str(said).startswith(f'exec: "{name}": executable file not found')


def test_operation_beyond_the_plan() -> None:
    assert "read the plan in the executor" in str(
        failure(None, record("read", errno.EBADMSG, "plan"))
    )


@pytest.mark.parametrize("operation", [hook(), EXEC, SECCOMP], ids=["hook", "exec", "seccomp"])
@pytest.mark.parametrize("call", ["hook", "hook timeout", "execve", "fork", "seccomp", "sendmsg"])
def test_without_values(operation: Operation, call: str) -> None:
    """After `create` only the code and the JSON path of an operation are known."""
    known = Operation(operation.code, (), operation.where)
    assert str(failure(known, record(call, errno.EPERM, "/bin/tool")))


def test_kinds() -> None:
    """A failing hook is distinguished from a failing operation; the errno is kept."""
    assert isinstance(failure(hook(), record("hook", 1 << 8)), HookError)
    step = failure(MASK, record("open", errno.EIO))
    assert isinstance(step, StepError)
    assert step.errno == errno.EIO


def test_ending() -> None:
    assert ending(0) == "exited with status 0"
    assert ending(2 << 8) == "exited with status 2"
    assert ending(9) == "was killed by signal 9"


def test_hints_are_of_something() -> None:
    """Each key is an operation or a system call that the executor names."""
    calls = {
        "verify",
        "fsopen",
        "fsconfig",
        "fsmount",
        "mount_setattr",
        "mount_setattr id map",
        "setgroups",
    }
    assert {key for key, _ in HINTS} <= {name for name, _, _ in OPERATIONS} | calls
