"""Compile linux.seccomp to the BPF filter that the executor loads (config-linux.md#seccomp).

An extension module written in C compiles the rules with libseccomp.  This module decides the action
of each rule, the filter's flags, and the response to system calls that are newer than the profile.
``runtime/spec/schema.py`` has checked the names of actions and architectures before.
"""

from __future__ import annotations

from _struct import pack
from collections.abc import Callable
from errno import EDOM, ENOSYS, EPERM
from typing import TypeAlias

from ociruntime.base.errors import ConfigError, InternalError, reason
from ociruntime.base.seccomp_actions import (
    SECCOMP_ACTIONS,
    SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAGS,
    SECCOMP_RET_ERRNO,
    SECCOMP_RET_TRACE,
    SECCOMP_RET_USER_NOTIF,
)
from ociruntime.runtime.spec.config_types import Seccomp, Syscall, SyscallArg

Rule: TypeAlias = tuple[int, list[str], list[SyscallArg], int]

# The name in config.json -> libseccomp's token: AUDIT_ARCH_* of <linux/audit.h>, except X32, which
# the kernel reports as X86_64 with bit 30 set in the number.
ARCHITECTURES: dict[str, int] = {
    "SCMP_ARCH_X86": 0x40000003,
    "SCMP_ARCH_X86_64": 0xC000003E,
    "SCMP_ARCH_X32": 0x4000003E,
    "SCMP_ARCH_ARM": 0x40000028,
    "SCMP_ARCH_AARCH64": 0xC00000B7,
    "SCMP_ARCH_LOONGARCH64": 0xC0000102,
    "SCMP_ARCH_M68K": 0x00000004,
    "SCMP_ARCH_MIPS": 0x00000008,
    "SCMP_ARCH_MIPS64": 0x80000008,
    "SCMP_ARCH_MIPS64N32": 0xA0000008,
    "SCMP_ARCH_MIPSEL": 0x40000008,
    "SCMP_ARCH_MIPSEL64": 0xC0000008,
    "SCMP_ARCH_MIPSEL64N32": 0xE0000008,
    "SCMP_ARCH_PARISC": 0x0000000F,
    "SCMP_ARCH_PARISC64": 0x8000000F,
    "SCMP_ARCH_PPC": 0x00000014,
    "SCMP_ARCH_PPC64": 0x80000015,
    "SCMP_ARCH_PPC64LE": 0xC0000015,
    "SCMP_ARCH_RISCV64": 0xC00000F3,
    "SCMP_ARCH_S390": 0x00000016,
    "SCMP_ARCH_S390X": 0x80000016,
    "SCMP_ARCH_SH": 0x4000002A,
    "SCMP_ARCH_SHEB": 0x0000002A,
}

# enum scmp_compare of <seccomp.h>.
OPERATORS: dict[str, int] = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}

# Action -> highest value that it can carry: the kernel truncates an errno to MAX_ERRNO.
DATA_LIMITS = {SECCOMP_RET_ERRNO: 4095, SECCOMP_RET_TRACE: 0xFFFF}

WHERE = "linux.seccomp"
TSYNC = SECCOMP_FILTER_FLAGS["SECCOMP_FILTER_FLAG_TSYNC"]
SPEC_ALLOW = SECCOMP_FILTER_FLAGS["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]
WAIT_KILLABLE = SECCOMP_FILTER_FLAGS["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]
MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS
# libseccomp's SCMP_FLTATR_CTL_OPTIMIZE: build a binary search tree.  The kernel loads a tree in a
# third of the time, and finds the rule of a system call in a few steps.  libseccomp up to 2.5.3
# forgets the default action of a tree without rules.
BINARY_TREE = 2
MANY_NAMES = 16  # system calls from which on a tree is used
INSTRUCTION_SIZE = 8  # struct sock_filter


def compile_filter(
    profile: Seccomp, unknown: Callable[[str], None] | None = None
) -> tuple[bytes, int]:
    """Compile ``linux.seccomp``; return (``struct sock_filter`` array, SECCOMP_FILTER_FLAG_*).

    Skips each system call that libseccomp does not know, and calls ``unknown`` with its quoted
    name.  Raises ConfigError for values that are invalid, or that the kernel or libseccomp does not
    support.
    """
    default = _action(
        profile["defaultAction"],
        profile.get("defaultErrnoRet"),
        f"{WHERE}.defaultAction",
        f"{WHERE}.defaultErrnoRet",
    )
    tokens = _architectures(profile.get("architectures") or [])
    rules = _rules(profile.get("syscalls") or [])
    notifies = default == SECCOMP_RET_USER_NOTIF or any(
        action == SECCOMP_RET_USER_NOTIF for action, _, _, _ in rules
    )
    flags = filter_flags(profile.get("flags"), notifies)
    program, highest = _compile(default, tokens, rules, unknown)
    # ENOSYS is for profiles with an errno as default: libc then falls back to an older system call.
    # A profile that kills does so on purpose; one that allows, logs or traces needs no stub.
    if default & ~0xFFFF == SECCOMP_RET_ERRNO and default & 0xFFFF != ENOSYS:
        program = with_enosys_stub(program, highest)
    if len(program) > MAX_INSTRUCTIONS * INSTRUCTION_SIZE:
        count = len(program) // INSTRUCTION_SIZE
        raise ConfigError(
            WHERE, f"the filter has {count} instructions; the kernel's limit is {MAX_INSTRUCTIONS}"
        )
    return program, flags


def filter_flags(names: list[str] | None, notifies: bool) -> int:
    """Return the SECCOMP_FILTER_FLAG_* bits for ``linux.seccomp.flags``.

    ``notifies``: whether the profile uses SCMP_ACT_NOTIFY.  Raises ConfigError for an unknown or
    unsupported flag.

    Engines do not set flags.  If ``names`` is None, therefore sets SPEC_ALLOW where the kernel
    supports it, as other runtimes do: this flag disables a mitigation that slows down every
    container.
    """
    from ociruntime._seccomp import lib

    if names is None:
        names = ["SECCOMP_FILTER_FLAG_SPEC_ALLOW"] if lib.filter_flags_known(SPEC_ALLOW) else []
    flags = 0
    for i, name in enumerate(names):
        flag = SECCOMP_FILTER_FLAGS.get(name)
        if flag is None:
            raise _unknown(f"{WHERE}.flags[{i}]", "flag", name, SECCOMP_FILTER_FLAGS)
        # The kernel accepts this flag only together with a listener.
        probe = flag | SECCOMP_FILTER_FLAG_NEW_LISTENER if flag == WAIT_KILLABLE else flag
        if not lib.filter_flags_known(probe):
            raise ConfigError(f"{WHERE}.flags[{i}]", f'"{name}" is not supported by this kernel')
        flags |= flag
    if not notifies:
        # This flag only affects how the kernel waits for an agent.
        return flags & ~WAIT_KILLABLE
    # The program has one thread when the filter is loaded, so TSYNC is not needed.  The executor
    # has another thread then, which must not get the filter; and the kernel refuses TSYNC
    # together with NEW_LISTENER.
    return flags & ~TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER


def library_version() -> str:
    """Return the version of the libseccomp in use, such as ``2.5.4``."""
    from ociruntime._seccomp import ffi, lib

    parts = ffi.new("unsigned int[3]")
    lib.filter_version(parts)
    return ".".join(str(part) for part in parts)


def _unknown(where: str, kind: str, name: object, known: dict[str, int]) -> ConfigError:
    return ConfigError(where, f'unknown seccomp {kind} "{name}"', f"accepted: {', '.join(known)}")


def _action(name: str, errno: int | None, where: str, errno_where: str) -> int:
    """Return the SECCOMP_RET_* value of the action ``name``, with ``errno`` as its data.

    ``where`` and ``errno_where`` are the JSON paths of the action and the errno.  Raises
    ConfigError for an action that is unknown or not supported by the kernel, and for an errno that
    the action does not accept.
    """
    from ociruntime._seccomp import lib

    action = SECCOMP_ACTIONS.get(name)
    if action is None:
        raise _unknown(where, "action", name, SECCOMP_ACTIONS)
    if not lib.filter_action_known(action):
        raise ConfigError(where, f'"{name}" is not supported by this kernel')
    limit = DATA_LIMITS.get(action)
    if limit is None:
        if errno is not None:
            raise ConfigError(
                errno_where,
                f'{errno} cannot be used with the action "{name}"',
                "only SCMP_ACT_ERRNO and SCMP_ACT_TRACE accept errnoRet",
            )
        return action
    if errno is None:
        errno = EPERM
    if not 0 <= errno <= limit:
        raise ConfigError(errno_where, f"must be from 0 to {limit}, got {errno}")
    return action | errno


def _architectures(names: list[str]) -> list[int]:
    tokens = []
    for i, name in enumerate(names):
        token = ARCHITECTURES.get(name)
        if token is None:
            raise _unknown(f"{WHERE}.architectures[{i}]", "architecture", name, ARCHITECTURES)
        tokens.append(token)
    return tokens


def _rules(syscalls: list[Syscall]) -> list[Rule]:
    """Return the rules for libseccomp, each as (action, names, conditions, index in ``syscalls``).

    Raises ConfigError for an invalid entry.
    """
    rules: list[Rule] = []
    for i, entry in enumerate(syscalls):
        where = f"{WHERE}.syscalls[{i}]"
        action = _action(
            entry["action"], entry.get("errnoRet"), f"{where}.action", f"{where}.errnoRet"
        )
        names = entry["names"]
        if not names:
            raise ConfigError(f"{where}.names", "must not be empty")
        conditions = entry.get("args") or []
        for j, condition in enumerate(conditions):
            if condition["op"] not in OPERATORS:
                raise _unknown(f"{where}.args[{j}].op", "operator", condition["op"], OPERATORS)
            if not 0 <= condition["index"] <= 5:
                raise ConfigError(
                    f"{where}.args[{j}].index", f"must be from 0 to 5, got {condition['index']}"
                )
        if len({condition["index"] for condition in conditions}) == len(conditions):
            rules.append((action, names, conditions, i))
        else:
            # libseccomp takes one condition per argument.  As in runc, which profiles rely on, each
            # condition then becomes a rule, and one match suffices.
            rules.extend((action, names, [condition], i) for condition in conditions)
    return rules


def _compile(
    default: int,
    listed: list[int],
    rules: list[Rule],
    unknown: Callable[[str], None] | None,
) -> tuple[bytes, list[tuple[int, int]]]:
    """Compile the rules with libseccomp, without the ENOSYS stub.

    ``default`` is the default action as a SECCOMP_RET_* value, ``listed`` libseccomp's tokens for
    the profile's architectures.  Calls ``unknown`` with the quoted name of each system call that
    libseccomp does not know.  Returns (filter, [(architecture token, highest system call number in
    the rules)]).  Raises ConfigError if libseccomp refuses a part of the profile.

    """
    from ociruntime._seccomp import ffi, lib

    native: int = lib.filter_native()
    tokens = [native, *(token for token in listed if token != native)]
    rule_numbers: list[int] = []
    condition_numbers: list[int] = []
    names: list[str] = []
    for action, rule_names, rule_conditions, _ in rules:
        rule_numbers += (action, len(rule_names), len(rule_conditions))
        names += rule_names
        for condition in rule_conditions:
            first, second = condition["value"], condition.get("valueTwo") or 0
            operator = OPERATORS[condition["op"]]
            condition_numbers += (condition["index"], operator, first, second)
    text = "\0".join(names).encode(errors="replace") + b"\0"
    if text.count(b"\0") != max(len(names), 1):
        raise ConfigError(f"{WHERE}.syscalls", "the name of a system call contains a NUL byte")
    # Variables keep the C objects alive until the call returns: the request holds only addresses.
    architectures = pack(f"{len(tokens)}I", *tokens)
    packed_rules = pack(f"{len(rule_numbers)}I", *rule_numbers)
    conditions = pack(f"{len(condition_numbers)}Q", *condition_numbers)
    request = ffi.new("struct filter_request *")
    request.default_action = default
    request.optimize = BINARY_TREE if len(names) >= MANY_NAMES else 0
    request.architectures = ffi.from_buffer("uint32_t[]", architectures)
    request.architecture_count = len(tokens)
    request.rule_count = len(rules)
    request.rules = ffi.cast("struct filter_rule *", ffi.from_buffer(packed_rules))
    request.conditions = ffi.cast("struct filter_condition *", ffi.from_buffer(conditions))
    request.names = ffi.from_buffer(text)
    result = ffi.new("struct filter_result *")
    try:
        error = lib.filter_compile(request, result)
        if error < 0:
            raise _refused(-error, result.stage, result.index, default, listed, tokens, rules)
        if unknown is not None:
            for i in range(result.unknown_count):
                unknown(f'"{names[result.unknown[i]]}"')
        highest = [
            (token, result.highest[i])
            for i, token in enumerate(tokens)
            if result.highest[i] != 0xFFFFFFFF
        ]
        return bytes(ffi.buffer(result.program, result.size)), highest
    finally:
        lib.filter_free(result)


def _refused(
    errno: int,
    stage: int,
    index: int,
    default: int,
    listed: list[int],
    tokens: list[int],
    rules: list[Rule],
) -> Exception:
    """Return the error for a failed ``filter_compile``, the C function that calls libseccomp.

    ``errno``, ``stage`` and ``index`` are the results of that function: the cause, the stage that
    failed, and the position of the architecture or system call that libseccomp refused.  The other
    parameters are the input of that function.
    """
    import posix

    from ociruntime._seccomp import lib

    cause = reason(OSError(errno, posix.strerror(errno)))
    version = library_version()
    if stage == lib.FILTER_DEFAULT_ACTION:
        action = next(n for n, value in SECCOMP_ACTIONS.items() if value == default & ~0xFFFF)
        return ConfigError(f"{WHERE}.defaultAction", f"{action} is refused by libseccomp {version}")
    if stage == lib.FILTER_ARCHITECTURE:
        # The first token is the machine's own architecture, which is never refused.
        name = next(name for name, token in ARCHITECTURES.items() if token == tokens[index])
        place = f"{WHERE}.architectures[{listed.index(tokens[index])}]"
        hint = "one filter cannot have both byte orders" if errno == EDOM else ""
        return ConfigError(place, f'"{name}" is refused by libseccomp {version}: {cause}', hint)
    if stage == lib.FILTER_RULE:
        for _, names, _, entry in rules:
            if index < len(names):
                return ConfigError(
                    f"{WHERE}.syscalls[{entry}]",
                    f'the rule for "{names[index]}" is refused by libseccomp {version}: {cause}',
                )
            index -= len(names)
    return InternalError(
        f"compile linux.seccomp: libseccomp {version} cannot export the filter: {cause}"
    )


# A stub that answers ENOSYS to system calls that are newer than the seccomp profile.
#
# A profile that answers EPERM by default also answers EPERM to system calls that are newer than the
# profile.  C libraries try a new call first and fall back to an older one only on ENOSYS, so old
# profiles break new programs.  Therefore the stub before the compiled filter answers ENOSYS to a
# system call whose number is above all numbers in the profile.

X86_64 = 0xC000003E  # AUDIT_ARCH_X86_64
X32 = 0x4000003E  # libseccomp's token; the kernel reports X86_64 and sets this bit:
X32_BIT = 0x40000000
NEVER = 0xFFFFFFFF  # no system call number is greater

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
    """Return ``program`` preceded by a stub that answers newer system calls with ENOSYS.

    ``highest``: (architecture token, highest system call number in the profile) for each
    architecture of the filter.  Calls of other architectures, and of x32 in a filter without x32,
    pass the stub and reach ``program``.
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
