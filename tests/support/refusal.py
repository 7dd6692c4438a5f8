"""Refuse system calls, like an old kernel or the filter of an outer container."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.support import project
from tests.support.runtime import Runtime

SECCOMP_MODE_FILTER = 2
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

# What the executor does without; the same numbers on every processor.
CALLS = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
    "faccessat2": 439,
}
X86 = os.uname().machine == "x86_64"
NUMBERS = {
    **CALLS,
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "clone3": 435,
    "keyctl": 250 if X86 else 219,
    "memfd_create": 319 if X86 else 279,
    "execveat": 322 if X86 else 281,
    "statx": 332 if X86 else 291,
}

ENOSYS = 38
EPERM = 1
MOUNT_API = ("open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick")
# Names for several calls.
GROUPS = {"mount-api": (*MOUNT_API, "mount_setattr")}
ERRORS = {"ENOSYS": ENOSYS, "EPERM": EPERM}
LACKS = {
    "5.1": (ENOSYS, *MOUNT_API, "openat2", "mount_setattr"),
    "5.11": (ENOSYS, "mount_setattr"),
    "filter": (EPERM, *MOUNT_API, "openat2", "mount_setattr"),
    "filter without openat2": (EPERM, "openat2"),
}

libc = ctypes.CDLL(None)


# In this process and all that it starts, since ``refuse_as_kernel``.
_refused: set[str] = set()


def is_refused(call: str) -> bool:
    """Return whether the option ``--without`` refuses this system call."""
    return call in _refused


needs_joined_proc = pytest.mark.needs_call(
    *("fsopen", "fsconfig", "fsmount"), reason="the procfs of a joined pid namespace"
)


def needs_mount_api(reason: str) -> pytest.MarkDecorator:
    """Mark a test that needs the mount API; the runtime uses all of it or nothing."""
    return pytest.mark.needs_call(*GROUPS["mount-api"], reason=reason)


def lacking(runtime: Runtime, work: Path, lack: str) -> Runtime:
    """Return the same runtime with the system calls of ``LACKS[lack]`` refused."""
    error, *calls = LACKS[lack]
    wrapper = work / "lacking"
    wrapper.write_text(
        f"#!{sys.executable}\nimport os, sys\nsys.path.insert(0, {str(project.ROOT)!r})\n"
        f"from tests.support.refusal import refuse\nrefuse({error}, *{calls!r})\n"
        f"os.execv({str(runtime.path)!r}, [{str(runtime.path)!r}, *sys.argv[1:]])\n"
    )
    wrapper.chmod(0o755)
    return Runtime(wrapper, runtime.root)


def names_of(calls: Collection[str]) -> str:
    """Return the names of calls, with a group's name instead of all its calls."""
    names = list(calls)
    for group, members in GROUPS.items():
        if {*members} <= {*names}:
            names = [*(name for name in names if name not in members), group]
    return ", ".join(names)


def refuse(error: int, *calls: str) -> None:
    """Make these system calls fail with ``error`` in this process and its future children."""
    _load(_filter(error, calls))


def refuse_as_kernel(error: int, calls: Sequence[str]) -> None:
    """Do the same as ``refuse``, for root and without no_new_privs, which children can see."""
    _load(_filter(error, calls), no_new_privs=False)
    _refused.update(calls)


def parse_calls(words: str) -> tuple[str, ...]:
    """Return the calls of a list with commas, in which ``mount-api`` stands for several.

    Raises KeyError with the first name that is not known.
    """
    calls: list[str] = []
    for word in words.split(","):
        if word not in GROUPS and word not in NUMBERS:
            raise KeyError(word)
        calls += GROUPS.get(word, (word,))
    return tuple(dict.fromkeys(calls))


def _filter(error: int, calls: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Return the code of the filter that fails ``calls`` with ``error``."""
    numbers = [NUMBERS[name] for name in calls]
    code = [(0x20, 0, 0, 0)]  # load the number
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        code.append((0x15, left, 0, number))
    return [*code, (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | error)]


def refuse_fsconfig(error: int, command: int) -> None:
    """Make that command of fsconfig(2) fail with ``error`` in this process and its children."""
    _load(
        [
            *((0x20, 0, 0, 0), (0x15, 0, 3, CALLS["fsconfig"])),
            *((0x20, 0, 0, 24), (0x15, 0, 1, command)),
            *((0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)),
        ]
    )


def refuse_memfd_flags(error: int, flags: int) -> None:
    """Make memfd_create(2) with a flag fail with ``error`` in this process and its children."""
    _load(
        [
            *((0x20, 0, 0, 0), (0x15, 0, 3, NUMBERS["memfd_create"])),
            *((0x20, 0, 0, 24), (0x45, 0, 1, flags)),
            *((0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)),
        ]
    )


def refuse_prctl(error: int, option: int) -> None:
    """Make that option of prctl(2) fail with ``error`` in this process and its children."""
    number = 157 if X86 else 167
    _load(
        [
            *((0x20, 0, 0, 0), (0x15, 0, 3, number)),
            *((0x20, 0, 0, 16), (0x15, 0, 1, option)),
            *((0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)),
        ]
    )


def kill_on_prctl(option: int, value: int) -> None:
    """Kill this process and its children for prctl(``option``, ``value``)."""
    number = 157 if X86 else 167
    _load(
        [
            *((0x20, 0, 0, 0), (0x15, 0, 5, number)),
            *((0x20, 0, 0, 16), (0x15, 0, 3, option)),
            *((0x20, 0, 0, 24), (0x15, 0, 1, value)),
            *((0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000)),
        ]
    )


def _load(code: list[tuple[int, int, int, int]], no_new_privs: bool = True) -> None:
    text = b"".join(struct.pack("=HBBI", *one) for one in code)
    buffer = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("@HxxxxxxP", len(code), ctypes.addressof(buffer))
    assert not no_new_privs or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) == 0
