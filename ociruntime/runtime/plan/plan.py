"""The plan: the operations that the executor carries out, and how to start the executor."""

from __future__ import annotations

from _struct import pack
from collections.abc import Callable
from typing import TypeAlias

from ociruntime.base.errors import InternalError
from ociruntime.runtime.plan.operation_table import OPERATIONS, WIRE_MAGIC

Value: TypeAlias = int | str | bytes | list[str] | list[int]


class Operation:
    """One operation of the plan: its code, and the values of its fields.

    ``runtime/plan/operation_table.py`` defines both.  ``where`` is the JSON path of the setting
    that requires the operation.  It is for error messages; the executor does not get it.
    """

    __slots__ = ("code", "values", "where")

    def __init__(self, code: int, values: tuple[Value, ...], where: str) -> None:
        self.code = code
        self.values = values
        self.where = where


class Plan:
    """A plan: the operations that the executor carries out, and how to start the executor.

    ``clone_flags``: the CLONE_NEW* flags of the clone3(2) that starts the executor.
    ``preserve_fds``: the number of descriptors, starting with 3, that the container's program
    inherits.  ``warnings``: texts for the log.
    """

    __slots__ = ("clone_flags", "operations", "preserve_fds", "warnings")

    def __init__(self, clone_flags: int = 0, preserve_fds: int = 0) -> None:
        self.clone_flags = clone_flags
        self.preserve_fds = preserve_fds
        self.operations: list[Operation] = []
        self.warnings: list[str] = []

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)


# Encode a plan in the executor's binary format.
#
#     plan      = magic:u32 size:u32 count:u32 preserve_fds:u32 operation*
#     operation = code:u32 size:u32 field*          size: bytes of the fields
#     u32       = 4 bytes                           all in the byte order of the machine
#     u64       = 8 bytes
#     str       = length:u32 byte* NUL              length without the NUL
#     bytes     = length:u32 byte*
#     strs      = count:u32 str*
#     u32s      = count:u32 u32*
#
# Every field begins at a multiple of 4; padding is zero.  The reader
# (``csrc/executor/plan_reader.c``) checks every length before it uses it.


def _u32(value: int) -> bytes:
    return pack("=I", value)


def _u64(value: int) -> bytes:
    return pack("=Q", value)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _str(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise InternalError(f"encode the plan: {value!r}: contains a NUL byte")
    return pack("=I", len(data)) + _padded(data + b"\0")


def _bytes(value: bytes) -> bytes:
    return pack("=I", len(value)) + _padded(value)


def _strs(value: list[str]) -> bytes:
    return pack("=I", len(value)) + b"".join(map(_str, value))


def _u32s(value: list[int]) -> bytes:
    return pack(f"=I{len(value)}I", len(value), *value)


ENCODERS: dict[str, Callable[..., bytes]] = {
    "u32": _u32,
    "u64": _u64,
    "str": _str,
    "bytes": _bytes,
    "strs": _strs,
    "u32s": _u32s,
}


def encode_operation(operation: Operation) -> bytes:
    """Return an operation in the executor's binary format."""
    fields = OPERATIONS[operation.code - 1][2]
    body = b"".join(
        ENCODERS[kind](value) for (_, kind, _), value in zip(fields, operation.values, strict=True)
    )
    return pack("=II", operation.code, len(body)) + body


def encode(plan: Plan) -> bytes:
    """Return the whole plan in the executor's binary format."""
    body = b"".join(map(encode_operation, plan.operations))
    return pack("=IIII", WIRE_MAGIC, 16 + len(body), len(plan.operations), plan.preserve_fds) + body


def field(operation: Operation, name: str) -> Value | None:
    """Return the value of an operation's field, or None if the operation has no such field."""
    for (field_name, _, _), value in zip(
        OPERATIONS[operation.code - 1][2], operation.values, strict=True
    ):
        if field_name == name:
            return value
    return None


def operation_name(operation: Operation) -> str:
    """Return the operation's name, such as ``mount``."""
    return OPERATIONS[operation.code - 1][0]
