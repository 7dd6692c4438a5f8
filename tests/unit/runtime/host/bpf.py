"""Classic BPF as the kernel runs it for seccomp, for tests: a filter's answer to a call."""

from __future__ import annotations

import struct

X86_64 = 0xC000003E
X86 = 0x40000003

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
KILL_THREAD = 0


def answer(
    program: bytes, number: int, args: tuple[int, ...] = (), architecture: int = X86_64
) -> int:
    """SECCOMP_RET_* with its data for one system call.

    Knows only the instructions that libseccomp and the stub use; anything else is an error.
    """
    padded = (*args, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    code = list(struct.iter_unpack("HBBI", program))
    position = accumulator = 0
    while True:
        operation, jump_true, jump_false, value = code[position]
        position += 1
        if operation == 0x20:  # ld [k]
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:  # and #k
            accumulator &= value
        elif operation == 0x06:  # ret #k
            return int(value)
        elif operation == 0x05:  # ja
            position += value
        else:
            taken = {
                0x15: accumulator == value,
                0x25: accumulator > value,
                0x35: accumulator >= value,
                0x45: accumulator & value != 0,
            }[operation]
            position += jump_true if taken else jump_false
