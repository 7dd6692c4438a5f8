"""ENOSYS for the system calls that are newer than a seccomp profile.

A profile that answers EPERM by default also answers EPERM to calls which its author could not
know.  C libraries try such a call first and fall back to an older one only on ENOSYS, so old
profiles break new programs.  Therefore a few instructions go before the compiled filter: a
number above the highest one that the profile names is answered with ENOSYS.
"""

from __future__ import annotations

from _struct import pack

X86_64 = 0xC000003E  # AUDIT_ARCH_X86_64
X32 = 0x4000003E  # libseccomp's token; the kernel reports X86_64 and sets this bit:
X32_BIT = 0x40000000
NEVER = 0xFFFFFFFF  # no number is greater

RETURN_ENOSYS = 0x00050000 | 38  # SECCOMP_RET_ERRNO

# struct sock_filter {u16 code; u8 jt; u8 jf; u32 k;}, <linux/filter.h>
INSTRUCTION = "HBBI"
LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_GREATER = 0x25
JUMP_NOT_LESS = 0x35
RETURN = 0x06  # BPF_RET | BPF_K
# Offsets in struct seccomp_data.
NUMBER = 0
ARCHITECTURE = 4


def with_enosys_stub(program: bytes, highest: list[tuple[int, int]]) -> bytes:
    """Put the stub before ``program``.

    ``highest`` holds for each architecture of the filter libseccomp's token and the highest
    system call number named in the profile.  Other architectures, and x32 calls in a filter
    without x32, reach the compiled filter as before, which refuses them in its own way.
    """
    limits = dict(highest)
    x32 = limits.pop(X32, NEVER)
    if x32 != NEVER:
        limits.setdefault(X86_64, NEVER)
    stub = b""
    for architecture, limit in limits.items():
        if architecture == X86_64:
            stub += _assemble(
                (LOAD, 0, 0, ARCHITECTURE),
                (JUMP_EQUAL, 0, 5, X86_64),
                (LOAD, 0, 0, NUMBER),
                (JUMP_NOT_LESS, 0, 1, X32_BIT),
                (JUMP_GREATER, 1, 2, x32),
                (JUMP_GREATER, 0, 1, limit),
                (RETURN, 0, 0, RETURN_ENOSYS),
            )
        else:
            stub += _assemble(
                (LOAD, 0, 0, ARCHITECTURE),
                (JUMP_EQUAL, 0, 3, architecture),
                (LOAD, 0, 0, NUMBER),
                (JUMP_GREATER, 0, 1, limit),
                (RETURN, 0, 0, RETURN_ENOSYS),
            )
    return stub + program


def _assemble(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join([pack(INSTRUCTION, *instruction) for instruction in instructions])
