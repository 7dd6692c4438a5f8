"""Predict a compiled filter's verdicts on the system calls that the executor makes under it.

This is a small interpreter for the subset of classic BPF that libseccomp generates.  Where a jump
depends on a value that is not known beforehand (a pointer, a descriptor), it follows both branches.
A call counts as allowed only if every branch ends in ALLOW or LOG.  An unknown instruction counts
as a denial.
"""

from __future__ import annotations

import sys
from _struct import iter_unpack
from collections.abc import Callable

from ociruntime.base.seccomp_actions import SECCOMP_RET_ALLOW, SECCOMP_RET_LOG
from ociruntime.runtime.host.seccomp import (
    ARCHITECTURE,
    INSTRUCTION,
    JUMP_EQUAL,
    JUMP_GREATER,
    JUMP_NOT_LESS,
    LOAD,
    NUMBER,
    RETURN,
)

AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
JUMP = 0x05  # BPF_JMP | BPF_JA
JUMP_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
ARGUMENTS = 16  # offset of the first argument in struct seccomp_data, in two words each
ACTION = 0xFFFF0000

CLONE_PARENT = 0x8000
SIGCHLD = 17
TIOCSCTTY = 0x540E

# Name in the plan -> (system call, {index of an argument: its known value}).
CALLS: dict[str, tuple[str, dict[int, int]]] = {
    "clone": ("clone", {0: CLONE_PARENT}),
    "fork": ("clone", {0: SIGCHLD}),
    "ioctl": ("ioctl", {1: TIOCSCTTY}),
    **{
        name: (name, {})
        for name in "accept4 capset chdir close dup3 execve exit_group fcntl ftruncate getpid kill"
        " lseek memfd_create pidfd_open pipe2 ppoll pread64 prlimit64 read recvfrom recvmsg sendmsg"
        " setpgid setsid umask wait4 write".split()
    },
}


def allowed_calls(program: bytes) -> frozenset[str]:
    """Return the names in ``CALLS`` that the filter ``program`` allows to a native process."""
    from ociruntime._seccomp import lib

    native: int = lib.filter_native()
    return frozenset(
        name
        for name, (call, known) in CALLS.items()
        if (number := lib.filter_number(call.encode())) >= 0
        and lets_through(program, native, number, known)
    )


def lets_through(program: bytes, architecture: int, number: int, known: dict[int, int]) -> bool:
    """Return whether the filter ``program`` allows system call ``number``.

    ``architecture`` is the AUDIT_ARCH_* value of the call.  ``known``: {index of an argument:
    value}, for the arguments whose values are known.
    """
    data: dict[int, int] = {NUMBER: number, ARCHITECTURE: architecture}
    for index, value in known.items():
        low, high = value & 0xFFFFFFFF, value >> 32
        data[ARGUMENTS + 8 * index + _LOW] = low
        data[ARGUMENTS + 8 * index + 4 - _LOW] = high
    return all(verdict & ACTION in _PASSES for verdict in _verdicts(program, data))


_PASSES = {SECCOMP_RET_ALLOW, SECCOMP_RET_LOG}
_LOW = 0 if sys.byteorder == "little" else 4  # offset of an argument's lower half
_NOT_UNDERSTOOD = 0  # SECCOMP_RET_KILL_THREAD


def _verdicts(program: bytes, data: dict[int, int]) -> set[int]:
    """Return all SECCOMP_RET_* values that the filter ``program`` may return for a system call.

    ``data``: {offset in struct seccomp_data: value}, for the values that are known.
    """
    code = list(iter_unpack(f"={INSTRUCTION}", program))
    results: set[int] = set()
    seen: set[tuple[int, int | None]] = set()
    pending: list[tuple[int, int | None]] = [(0, None)]
    while pending:
        state = pending.pop()
        if state in seen or state[0] >= len(code):
            continue
        seen.add(state)
        place, value = state
        operation, if_true, if_false, operand = code[place]
        place += 1
        if operation == RETURN:
            results.add(operand)
        elif operation == LOAD:
            pending.append((place, data.get(operand)))
        elif operation == AND:
            pending.append((place, None if value is None else value & operand))
        elif operation == JUMP:
            pending.append((place + operand, value))
        elif operation in _TESTS:
            outcome = None if value is None else _TESTS[operation](value, operand)
            if outcome is not False:
                pending.append((place + if_true, value))
            if outcome is not True:
                pending.append((place + if_false, value))
        else:
            results.add(_NOT_UNDERSTOOD)
    return results


_TESTS: dict[int, Callable[[int, int], bool]] = {
    JUMP_EQUAL: int.__eq__,
    JUMP_GREATER: int.__gt__,
    JUMP_NOT_LESS: int.__ge__,
    JUMP_ANY_BIT: lambda value, operand: bool(value & operand),
}
