"""The eBPF device program, run by a small interpreter, decides as the rules say."""

from __future__ import annotations

import struct

from hypothesis import given, settings

from ociruntime.runtime.cgroups import device_program as program
from ociruntime.runtime.cgroups.device_policy import DevicePolicy, policy
from tests.unit.runtime.cgroups.device_model import Request, allowed, policies, requests

MASK32 = 0xFFFFFFFF
KINDS = {"b": 1, "c": 2}


def decode(code: bytes) -> list[tuple[int, int, int, int, int]]:
    """(opcode, dst, src, offset, value) of each instruction."""
    return [
        (opcode, registers & 15, registers >> 4, offset, value)
        for opcode, registers, offset, value in struct.iter_unpack("<BBhi", code)
    ]


def run(code: bytes, request: Request) -> int:
    """The verdict; an unknown instruction, a wild jump or a bad load is an error."""
    kind, major, minor, access = request
    context = struct.pack("<III", access << 16 | KINDS[kind], major, minor)
    registers: dict[int, int] = {}
    instructions = decode(code)
    at = steps = 0
    while True:
        steps += 1
        assert steps <= len(instructions), "it does not end"
        opcode, dst, src, offset, value = instructions[at]
        at += 1
        if opcode == program.LOAD_WORD:
            assert src == 1, "only the context may be read"
            registers[dst] = struct.unpack_from("<I", context, offset)[0]
        elif opcode == program.MOVE:
            registers[dst] = registers[src] & MASK32
        elif opcode == program.MOVE_VALUE:
            registers[dst] = value & MASK32
        elif opcode == program.AND_VALUE:
            registers[dst] &= value & MASK32
        elif opcode == program.SHIFT_RIGHT:
            registers[dst] >>= value
        elif opcode == program.JUMP:
            at += offset
        elif opcode == program.JUMP_UNLESS_EQUAL:
            at += offset if registers[dst] != value else 0
        elif opcode == program.JUMP_IF_BITS:
            at += offset if registers[dst] & value else 0
        else:
            assert opcode == program.EXIT, f"unknown opcode {opcode:#x}"
            return registers[0]


def unreachable(code: bytes) -> set[int]:
    """Instructions that no path leads to; the kernel's verifier refuses a program with any."""
    instructions = decode(code)
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        opcode, _, _, offset, _ = instructions[at]
        if opcode == program.EXIT:
            continue
        if opcode != program.JUMP:
            waiting.append(at + 1)
        if opcode in (program.JUMP, program.JUMP_UNLESS_EQUAL, program.JUMP_IF_BITS):
            assert offset >= 0, "a loop"
            waiting.append(at + 1 + offset)
    return set(range(len(instructions))) - seen


@settings(max_examples=500)
@given(policies, requests)
def test_decides_as_the_rules_say(wanted: DevicePolicy, request_: Request) -> None:
    assert run(program.assemble(wanted), request_) == int(allowed(wanted, request_))


@given(policies)
def test_has_nothing_that_the_verifier_refuses(wanted: DevicePolicy) -> None:
    code = program.assemble(wanted)
    assert unreachable(code) == set()
    assert decode(code)[-1][0] == program.EXIT


def test_the_last_rule_wins() -> None:
    allow = {"allow": True, "type": "b", "major": 8, "access": "r"}
    deny = {"allow": False, "type": "b", "major": 8, "minor": 1, "access": "r"}
    assert run(program.assemble(policy([allow, deny], "")), ("b", 8, 1, 2)) == 0
    assert run(program.assemble(policy([deny, allow], "")), ("b", 8, 1, 2)) == 1


def test_the_defaults() -> None:
    code = program.assemble(policy([], ""))
    assert run(code, ("c", 1, 3, 6)) == 1
    assert run(code, ("c", 136, 1234, 6)) == 1
    assert run(code, ("b", 8, 0, 1)) == 1
    assert run(code, ("b", 8, 0, 2)) == 0
    assert run(code, ("c", 1, 1, 7)) == 0


def test_everything() -> None:
    code = program.assemble(policy([{"allow": True}], ""))
    assert len(decode(code)) == 9
    assert run(code, ("b", 8, 0, 7)) == 1
