"""Compile a device policy to an eBPF program for cgroup v2, and attach it.

Sources: include/uapi/linux/bpf.h (BPF_PROG_TYPE_CGROUP_DEVICE, struct bpf_cgroup_dev_ctx), bpf(2).
This module is imported only on hosts with cgroup v2.
"""

from __future__ import annotations

import errno
import posix
from struct import pack, pack_into, unpack_from

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups.control_files import may_set_device_rules
from ociruntime.runtime.cgroups.device_policy import EVERY_ACCESS, DevicePolicy, DeviceRule

_DEVICE_NUMBERS = {"b": 1, "c": 2}  # BPF_DEVCG_DEV_*

# Opcodes: class | source | operation.
LOAD_WORD = 0x61  # dst = *(u32 *)(src + off)
AND_VALUE, SHIFT_RIGHT, MOVE, MOVE_VALUE = 0x54, 0x74, 0xBC, 0xB4  # 32 bits
JUMP, JUMP_UNLESS_EQUAL, JUMP_IF_BITS = 0x05, 0x55, 0x45
EXIT = 0x95

# Registers: r0 verdict, r1 context, r2 device type, r3 access not yet allowed, r4 r5 numbers.
_VERDICT, _CONTEXT, _KIND, _NEEDED, _MAJOR, _MINOR = 0, 1, 2, 3, 4, 5

_PROG_LOAD, _PROG_ATTACH, _PROG_DETACH = 5, 8, 9
_PROG_GET_FD_BY_ID, _PROG_QUERY = 13, 16
_TYPE_CGROUP_DEVICE = 15
_ATTACH_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
# The padding protects memory: some kernels write back more than the given size.
_ATTRIBUTE_SIZE = 256
_MOST_PROGRAMS = 64


def _instruction(opcode: int, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return pack("<BBhi", opcode, dst | src << 4, offset, value)


def assemble(device_policy: DevicePolicy) -> bytes:
    """Compile a device policy to an eBPF program (an array of struct bpf_insn).

    The program returns 1 to allow an access, 0 to deny it.  It tests the rules in reverse order,
    because the last match wins.  Its register r3 holds the access bits that no rule has decided
    yet.  A ``deny`` rule that matches any of them returns 0.  An ``allow`` rule clears its bits,
    and returns 1 if none are left.
    """
    code = [
        _instruction(LOAD_WORD, _KIND, _CONTEXT, 0),
        _instruction(MOVE, _NEEDED, _KIND),
        _instruction(SHIFT_RIGHT, _NEEDED, value=16),
        _instruction(AND_VALUE, _KIND, value=0xFFFF),
        _instruction(LOAD_WORD, _MAJOR, _CONTEXT, 4),
        _instruction(LOAD_WORD, _MINOR, _CONTEXT, 8),
        _instruction(MOVE_VALUE, _VERDICT, value=0),
    ]
    for rule in reversed(device_policy.rules):
        code += _rule(rule)
    code += [
        _instruction(MOVE_VALUE, _VERDICT, value=int(device_policy.allow_rest)),
        _instruction(EXIT),
    ]
    return b"".join(code)


def _rule(rule: DeviceRule) -> list[bytes]:
    if rule.allow:
        body = [
            _instruction(AND_VALUE, _NEEDED, value=EVERY_ACCESS & ~rule.access),
            _instruction(JUMP_UNLESS_EQUAL, _NEEDED, offset=2, value=0),
            _instruction(MOVE_VALUE, _VERDICT, value=1),
            _instruction(EXIT),
        ]
    else:
        body = [
            _instruction(JUMP_IF_BITS, _NEEDED, offset=1, value=rule.access),
            _instruction(JUMP, offset=1),
            _instruction(EXIT),
        ]
    tests = [(_KIND, _DEVICE_NUMBERS[rule.kind])]
    tests += [(reg, n) for reg, n in ((_MAJOR, rule.major), (_MINOR, rule.minor)) if n >= 0]
    code = []
    for index, (register, number) in enumerate(tests):
        skip = len(tests) - index - 1 + len(body)
        code.append(_instruction(JUMP_UNLESS_EQUAL, register, offset=skip, value=number))
    return code + body


def install(program: bytes, directory: str) -> None:
    """Make ``program`` the only eBPF device program attached to the cgroup ``directory``.

    Programs attached to its ancestors remain in force.  The old programs are detached only after
    the new one is attached, so that the cgroup is never without one.  Raises HostError if the
    kernel refuses to load or attach the program.

    EPERM is ignored unless this process is root of the initial user namespace.  Other processes may
    not load a program, but they cannot give a container access to devices either.
    """
    cgroup = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        previous = _attached(cgroup)
        loaded = bpf_load(program)
        try:
            bpf_attach(cgroup, loaded)
        finally:
            posix.close(loaded)
        for number in previous:
            _detach(cgroup, number)
    except OSError as error:
        if error.errno == errno.EPERM and not may_set_device_rules():
            return
        hint = ""
        if error.errno == errno.EPERM:
            hint = "loading an eBPF program needs CAP_BPF or CAP_SYS_ADMIN"
        action = f'set the device rules of cgroup "{directory}" with eBPF'
        raise HostError(action, error, hint) from None
    finally:
        posix.close(cgroup)


def bpf_load(program: bytes) -> int:
    """Load an eBPF device program into the kernel; return its descriptor.

    Raises OSError if the kernel refuses the program.
    """
    from ociruntime._system_calls import ffi

    buffer = ffi.from_buffer(program)
    licence = ffi.from_buffer(b"Apache-2.0\0")  # the program calls no GPL-only helper
    attribute = bytearray(_ATTRIBUTE_SIZE)
    pack_into(
        "=IIQQ",
        attribute,
        0,
        _TYPE_CGROUP_DEVICE,
        len(program) // 8,
        int(ffi.cast("uintptr_t", buffer)),
        int(ffi.cast("uintptr_t", licence)),
    )
    pack_into("=16s", attribute, 48, b"ociruntime")
    return _bpf(_PROG_LOAD, attribute)


def bpf_attach(cgroup: int, program: int) -> None:
    """Attach a device program to a cgroup; both are descriptors.

    BPF_F_ALLOW_MULTI lets a container manager inside the container attach programs of its own.
    Raises OSError if the kernel refuses to attach the program.
    """
    attribute = bytearray(_ATTRIBUTE_SIZE)
    pack_into("=IIII", attribute, 0, cgroup, program, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI)
    _bpf(_PROG_ATTACH, attribute)


def _attached(cgroup: int) -> list[int]:
    """Return the ids of the device programs attached to this cgroup, not to its ancestors."""
    from ociruntime._system_calls import ffi

    numbers = bytearray(4 * _MOST_PROGRAMS)
    attribute = bytearray(_ATTRIBUTE_SIZE)
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(numbers)))
    pack_into("=IIIIQI", attribute, 0, cgroup, _ATTACH_CGROUP_DEVICE, 0, 0, address, _MOST_PROGRAMS)
    _bpf(_PROG_QUERY, attribute)
    (count,) = unpack_from("=I", attribute, 24)
    return list(unpack_from(f"={count}I", numbers, 0))


def _detach(cgroup: int, number: int) -> None:
    attribute = bytearray(_ATTRIBUTE_SIZE)
    pack_into("=I", attribute, 0, number)
    program = _bpf(_PROG_GET_FD_BY_ID, attribute)
    try:
        attribute = bytearray(_ATTRIBUTE_SIZE)
        pack_into("=III", attribute, 0, cgroup, program, _ATTACH_CGROUP_DEVICE)
        _bpf(_PROG_DETACH, attribute)
    finally:
        posix.close(program)


def _bpf(command: int, attribute: bytearray) -> int:
    from ociruntime._system_calls import ffi, lib

    result = int(lib.oci_bpf(command, ffi.from_buffer(attribute), len(attribute)))
    if result < 0:
        raise OSError(-result, posix.strerror(-result))
    return result
