from __future__ import annotations

import errno
import json
import os
import signal
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from ociruntime._seccomp import lib

from ociruntime.base.errors import ConfigError, InternalError
from ociruntime.base.seccomp_actions import (
    SECCOMP_ACTIONS,
    SECCOMP_FILTER_FLAGS,
    SECCOMP_RET_ERRNO,
)
from ociruntime.runtime.host import seccomp
from ociruntime.runtime.host.seccomp import compile_filter
from tests.unit.runtime.host.bpf import ALLOW, ERRNO, KILL_THREAD, X86, answer

if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import Seccomp, Syscall, SyscallArg

PROFILE = Path(__file__).parents[3] / "data" / "seccomp_profile.json"

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers in here are those of x86_64"
)

READ, WRITE, PERSONALITY, SOCKET, CLONE, CLONE3, REBOOT = 0, 1, 135, 41, 56, 435, 169
EXIT_GROUP = 231
HIGH = 5000  # no architecture has a call of this number


def profile(*syscalls: Syscall, **settings: object) -> Seccomp:
    defaults = {"defaultAction": "SCMP_ACT_ALLOW", "flags": [], "syscalls": list(syscalls)}
    return cast("Seccomp", {**defaults, **settings})


def rule(
    name: str, action: str = "SCMP_ACT_ERRNO", *args: SyscallArg, errno: int | None = None
) -> Syscall:
    made: Syscall = {"names": [name], "action": action, "args": list(args)}
    if errno is not None:
        made["errnoRet"] = errno
    return made


def when(index: int, op: str, value: int, second: int | None = None) -> SyscallArg:
    condition: SyscallArg = {"index": index, "op": f"SCMP_CMP_{op}", "value": value}
    if second is not None:
        condition["valueTwo"] = second
    return condition


def refused(bad: Seccomp) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        compile_filter(bad)
    return caught.value.where, str(caught.value)


@pytest.mark.parametrize(
    ("action", "result"),
    [
        ("SCMP_ACT_KILL", 0),
        ("SCMP_ACT_KILL_THREAD", 0),
        ("SCMP_ACT_KILL_PROCESS", 0x80000000),
        ("SCMP_ACT_TRAP", 0x00030000),
        ("SCMP_ACT_ERRNO", ERRNO | 1),
        ("SCMP_ACT_TRACE", 0x7FF00000 | 1),
        ("SCMP_ACT_LOG", 0x7FFC0000),
        ("SCMP_ACT_NOTIFY", 0x7FC00000),
    ],
)
def test_every_action_as_rule_and_as_default(action: str, result: int) -> None:
    program, _ = compile_filter(profile(rule("personality", action)))
    assert answer(program, PERSONALITY) == result
    assert answer(program, READ) == ALLOW
    program, _ = compile_filter(profile(rule("reboot", "SCMP_ACT_ALLOW"), defaultAction=action))
    assert answer(program, PERSONALITY) == result
    assert answer(program, REBOOT) == ALLOW


def test_errno_of_rule_and_of_default() -> None:
    program, _ = compile_filter(
        profile(
            rule("personality", errno=errno.EACCES),
            rule("socket", "SCMP_ACT_TRACE", errno=7),
            rule("read", "SCMP_ACT_ALLOW"),
            defaultAction="SCMP_ACT_ERRNO",
            defaultErrnoRet=errno.EBUSY,
        )
    )
    assert answer(program, PERSONALITY) == ERRNO | errno.EACCES
    assert answer(program, SOCKET) == 0x7FF00000 | 7
    assert answer(program, WRITE) == ERRNO | errno.EBUSY


BIG = 1 << 40


@pytest.mark.parametrize(
    ("op", "value", "second", "hits", "misses"),
    [
        ("EQ", BIG + 5, None, [BIG + 5], [5, BIG, BIG + 6]),
        ("NE", BIG + 5, None, [5, BIG, BIG + 6], [BIG + 5]),
        ("LT", BIG, None, [0, BIG - 1], [BIG, BIG + 1]),
        ("LE", BIG, None, [0, BIG], [BIG + 1, 1 << 63]),
        ("GT", BIG, None, [BIG + 1, 1 << 63], [0, BIG]),
        ("GE", BIG, None, [BIG, 1 << 63], [BIG - 1]),
        ("MASKED_EQ", 0xF0, 0x20, [0x20, 0x2F, BIG + 0x21], [0, 0x30, 0x10]),
        ("MASKED_EQ", BIG | 1, BIG, [BIG, BIG + 2], [0, 1, BIG + 1]),
        ("MASKED_EQ", 0xF0, None, [0, 0xF], [0x10, 0xFF]),
    ],
)
def test_operators_on_64_bits(
    op: str, value: int, second: int | None, hits: list[int], misses: list[int]
) -> None:
    condition = when(3, op, value, second)
    program, _ = compile_filter(profile(rule("personality", "SCMP_ACT_ERRNO", condition)))
    for argument in hits:
        assert answer(program, PERSONALITY, (0, 0, 0, argument)) == ERRNO | 1, argument
    for argument in misses:
        assert answer(program, PERSONALITY, (0, 0, 0, argument)) == ALLOW, argument


def test_conditions_on_different_arguments_must_all_hold() -> None:
    both = rule("socket", "SCMP_ACT_ERRNO", when(0, "EQ", 1), when(1, "EQ", 2))
    program, _ = compile_filter(profile(both))
    assert answer(program, SOCKET, (1, 2)) == ERRNO | 1
    assert answer(program, SOCKET, (1, 3)) == ALLOW
    assert answer(program, SOCKET, (3, 2)) == ALLOW


def test_one_of_several_conditions_is_enough_when_two_are_on_one_argument() -> None:
    either = rule("socket", "SCMP_ACT_ERRNO", when(0, "EQ", 1), when(0, "EQ", 7), when(1, "EQ", 2))
    program, _ = compile_filter(profile(either))
    assert answer(program, SOCKET, (1, 0)) == ERRNO | 1
    assert answer(program, SOCKET, (7, 0)) == ERRNO | 1
    assert answer(program, SOCKET, (3, 2)) == ERRNO | 1
    assert answer(program, SOCKET, (3, 3)) == ALLOW


def test_rules_equal_to_the_default_are_left_out() -> None:
    # libseccomp itself refuses them.
    program, _ = compile_filter(profile(rule("read", "SCMP_ACT_ALLOW"), rule("write")))
    assert answer(program, READ) == ALLOW
    assert answer(program, WRITE) == ERRNO | 1


def test_a_name_given_twice() -> None:
    program, _ = compile_filter(profile(rule("write"), rule("write")))
    assert answer(program, WRITE) == ERRNO | 1


def test_unknown_names_are_passed_over_and_told() -> None:
    told: list[str] = []
    syscalls: Syscall = {"names": ["no_such", "write", "\ud800", ""], "action": "SCMP_ACT_ERRNO"}
    program, _ = compile_filter(profile(syscalls), told.append)
    assert answer(program, WRITE) == ERRNO | 1
    assert len(told) == 3
    assert '"no_such"' in told[0]


def test_only_listed_architectures_are_let_in() -> None:
    write_x86 = 4
    program, _ = compile_filter(profile(rule("write")))
    assert answer(program, write_x86, architecture=X86) == KILL_THREAD
    program, _ = compile_filter(profile(rule("write"), architectures=["SCMP_ARCH_X86"]))
    assert answer(program, write_x86, architecture=X86) == ERRNO | 1
    assert answer(program, 3, architecture=X86) == ALLOW
    assert answer(program, WRITE) == ERRNO | 1


def test_every_architecture_of_this_byte_order_compiles() -> None:
    foreign = {"LOONGARCH64", "M68K", "SH"} if seccomp.library_version() < "2.6" else set()
    for name, token in seccomp.ARCHITECTURES.items():
        little = token & 0x40000000
        if little and name.removeprefix("SCMP_ARCH_") not in foreign:
            compile_filter(profile(rule("write"), architectures=[name]))
        else:
            architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", name]
            where, text = refused(profile(rule("write"), architectures=architectures))
            assert where == "linux.seccomp.architectures[2]"
            assert name in text


def test_architectures_of_two_byte_orders() -> None:
    _, text = refused(profile(rule("write"), architectures=["SCMP_ARCH_S390X"]))
    assert "byte orders" in text


class TestStub:
    def allow_list(self, **settings: object) -> Seccomp:
        settings.setdefault("defaultAction", "SCMP_ACT_ERRNO")
        return profile(rule("read", "SCMP_ACT_ALLOW"), rule("write", "SCMP_ACT_ALLOW"), **settings)

    def test_newer_calls_get_enosys(self) -> None:
        program, _ = compile_filter(self.allow_list())
        assert answer(program, READ) == ALLOW
        assert answer(program, WRITE) == ALLOW
        assert answer(program, WRITE + 1) == ERRNO | errno.ENOSYS
        assert answer(program, HIGH) == ERRNO | errno.ENOSYS

    def test_a_refused_name_is_known_too(self) -> None:
        known = profile(
            rule("read", "SCMP_ACT_ALLOW"), rule("reboot"), defaultAction="SCMP_ACT_ERRNO"
        )
        program, _ = compile_filter(known)
        assert answer(program, REBOOT) == ERRNO | errno.EPERM
        assert answer(program, REBOOT + 1) == ERRNO | errno.ENOSYS

    @pytest.mark.parametrize(
        ("default", "result"),
        [
            ("SCMP_ACT_ALLOW", ALLOW),
            ("SCMP_ACT_LOG", 0x7FFC0000),
            ("SCMP_ACT_TRACE", 0x7FF00001),
            ("SCMP_ACT_KILL_PROCESS", 0x80000000),
        ],
    )
    def test_other_defaults_stand(self, default: str, result: int) -> None:
        program, _ = compile_filter(profile(rule("read", "SCMP_ACT_TRAP"), defaultAction=default))
        assert answer(program, HIGH) == result

    def test_each_architecture_has_its_own_limit(self) -> None:
        both = self.allow_list(architectures=["SCMP_ARCH_X86"])
        program, _ = compile_filter(both)
        read_x86, write_x86 = 3, 4
        assert answer(program, read_x86, architecture=X86) == ALLOW
        assert answer(program, write_x86, architecture=X86) == ALLOW
        assert answer(program, 1, architecture=X86) == ERRNO | errno.EPERM
        assert answer(program, write_x86 + 1, architecture=X86) == ERRNO | errno.ENOSYS
        assert answer(program, WRITE + 1) == ERRNO | errno.ENOSYS

    def test_x32_has_its_own_numbers(self) -> None:
        bit = 1 << 30
        program, _ = compile_filter(self.allow_list())
        assert answer(program, bit | WRITE) == KILL_THREAD
        assert answer(program, bit | HIGH) == KILL_THREAD
        program, _ = compile_filter(self.allow_list(architectures=["SCMP_ARCH_X32"]))
        assert answer(program, bit | WRITE) == ALLOW
        assert answer(program, bit | WRITE + 1) == ERRNO | errno.ENOSYS
        assert answer(program, WRITE + 1) == ERRNO | errno.ENOSYS

    def test_other_architectures_reach_the_filter(self) -> None:
        program, _ = compile_filter(self.allow_list())
        assert answer(program, HIGH, architecture=X86) == KILL_THREAD

    def test_an_empty_profile_knows_nothing(self) -> None:
        program, _ = compile_filter(profile(defaultAction="SCMP_ACT_ERRNO"))
        assert answer(program, HIGH) == ERRNO | errno.EPERM


class TestFlags:
    def test_absent_is_not_empty(self) -> None:
        assert seccomp.filter_flags(None, notifies=False) == 4
        assert seccomp.filter_flags([], notifies=False) == 0

    def test_listed_ones(self) -> None:
        names = ["SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG"]
        assert seccomp.filter_flags(names, notifies=False) == 3

    def test_waiting_for_a_listener_means_nothing_without_one(self) -> None:
        assert seccomp.filter_flags(["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"], notifies=False) == 0

    def test_a_filter_that_asks_has_a_listener_and_only_its_own_thread(self) -> None:
        assert compile_filter(profile(rule("read", "SCMP_ACT_NOTIFY")))[1] == 8
        names = ["SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]
        assert seccomp.filter_flags(names, notifies=True) == 8 | 32
        assert seccomp.filter_flags(None, notifies=True) == 8 | 4

    def test_a_kernel_without_listeners(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(SECCOMP_ACTIONS, "SCMP_ACT_NOTIFY", 0x7FC10000)
        where, text = refused(profile(rule("read"), rule("write", "SCMP_ACT_NOTIFY")))
        assert where == "linux.seccomp.syscalls[1].action"
        assert "not supported" in text

    def test_one_that_the_kernel_lacks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(SECCOMP_FILTER_FLAGS, "SECCOMP_FILTER_FLAG_LOG", 1 << 20)
        where, text = refused(profile(flags=["SECCOMP_FILTER_FLAG_LOG"]))
        assert where == "linux.seccomp.flags[0]"
        assert "not supported" in text


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (profile(defaultAction="SCMP_ACT_BOGUS"), "defaultAction"),
        (profile(defaultErrnoRet=1), "defaultErrnoRet"),
        (profile(defaultAction="SCMP_ACT_ERRNO", defaultErrnoRet=4096), "defaultErrnoRet"),
        (profile(rule("read"), rule("read", "BOGUS")), "syscalls[1].action"),
        (profile(rule("read", "SCMP_ACT_KILL", errno=1)), "syscalls[0].errnoRet"),
        (profile({"names": [], "action": "SCMP_ACT_KILL"}), "syscalls[0].names"),
        (profile(rule("read", "SCMP_ACT_KILL", when(0, "LIKE", 1))), "syscalls[0].args[0].op"),
        (profile(rule("read", "SCMP_ACT_KILL", when(6, "EQ", 1))), "syscalls[0].args[0].index"),
        (profile(rule("re\0ad")), "syscalls"),
        (profile(architectures=["SCMP_ARCH_Z80"]), "architectures[0]"),
        (profile(flags=["LOG"]), "flags[0]"),
    ],
)
def test_refused_with_the_path(bad: Seccomp, where: str) -> None:
    assert refused(bad)[0] == f"linux.seccomp.{where}"


def test_a_listener_path_without_notify_is_ignored() -> None:
    compile_filter(profile(rule("read"), listenerPath="/does/not/exist"))


def test_a_filter_too_long_for_the_kernel() -> None:
    many = [rule("personality", "SCMP_ACT_ERRNO", when(0, "EQ", i << 33 | i)) for i in range(1500)]
    where, text = refused(profile(*many))
    assert where == "linux.seccomp"
    assert "4096" in text


@pytest.fixture(scope="module")
def program() -> bytes:
    """The profile of an ordinary engine."""
    return compile_filter(json.loads(PROFILE.read_text()))[0]


class TestEnginesProfile:
    def test_answers(self, program: bytes) -> None:
        assert answer(program, READ) == ALLOW
        assert answer(program, EXIT_GROUP) == ALLOW
        assert answer(program, REBOOT) == ERRNO | errno.EPERM
        assert answer(program, HIGH) == ERRNO | errno.ENOSYS
        assert answer(program, CLONE3) == ERRNO | errno.ENOSYS
        assert answer(program, PERSONALITY, (8,)) == ALLOW
        assert answer(program, PERSONALITY, (9,)) == ERRNO | errno.EPERM
        assert answer(program, SOCKET, (2,)) == ALLOW
        assert answer(program, SOCKET, (40,)) == ERRNO | errno.EPERM
        assert answer(program, CLONE, (0x11,)) == ALLOW
        assert answer(program, CLONE, (0x10000011,)) == ERRNO | errno.EPERM

    def test_x86(self, program: bytes) -> None:
        read, reboot = 3, 88
        assert answer(program, read, architecture=X86) == ALLOW
        assert answer(program, reboot, architecture=X86) == ERRNO | errno.EPERM
        assert answer(program, HIGH, architecture=X86) == ERRNO | errno.ENOSYS

    def test_the_kernel_takes_it(self, program: bytes) -> None:
        assert probe(program, PERSONALITY, 8) == 0
        assert probe(program, PERSONALITY, 9) == errno.EPERM
        assert probe(program, HIGH, 0) == errno.ENOSYS


def test_the_kernel_kills() -> None:
    program, _ = compile_filter(profile(rule("personality", "SCMP_ACT_KILL_PROCESS")))
    assert probe(program, PERSONALITY, 8) == -signal.SIGSYS


def test_the_kernel_knows_x32_by_the_number() -> None:
    """Its calls are no way around a filter that was made for x86_64."""
    program, _ = compile_filter(profile(rule("personality", errno=errno.EACCES)))
    assert probe(program, 1 << 30 | PERSONALITY, 8) == -signal.SIGSYS
    x32 = ["SCMP_ARCH_X32"]
    program, _ = compile_filter(profile(rule("personality", errno=errno.EACCES), architectures=x32))
    assert probe(program, 1 << 30 | PERSONALITY, 8) == errno.EACCES


def probe(program: bytes, number: int, argument: int) -> int:
    """Load the filter in a child, make one call there: its errno, or minus the fatal signal."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    child = os.fork()
    if child == 0:
        failed = libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        failed |= libc.syscall(317, 1, 4, fprog)  # seccomp(SET_MODE_FILTER, SPEC_ALLOW)
        if failed:
            os._exit(255)
        result = libc.syscall(number, ctypes.c_ulong(argument))
        os._exit(ctypes.get_errno() if result < 0 else 0)
    _, status = os.waitpid(child, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def test_refusals_of_libseccomp() -> None:
    """Each stage of the compilation leads back to the setting that is at fault."""
    from ociruntime._seccomp import lib

    rules: Any = [(0, ["read", "write"], (), 3), (0, ["open"], (), 5)]

    def error(stage: int, index: int) -> Exception:
        return seccomp._refused(errno.EINVAL, stage, index, 0x7FFF0000, [], [], rules)

    action = error(lib.FILTER_DEFAULT_ACTION, 0)
    assert isinstance(action, ConfigError)
    assert action.where == "linux.seccomp.defaultAction"
    assert "SCMP_ACT_ALLOW" in action.message
    for index, (where, name) in enumerate(
        [("syscalls[3]", "read"), ("syscalls[3]", "write"), ("syscalls[5]", "open")]
    ):
        rule = error(lib.FILTER_RULE, index)
        assert isinstance(rule, ConfigError)
        assert rule.where == f"linux.seccomp.{where}"
        assert f'"{name}"' in rule.message
    assert isinstance(error(lib.FILTER_RULE, 3), InternalError)
    assert isinstance(error(-1, 0), InternalError)


def test_default_action_that_libseccomp_refuses() -> None:
    """The error says its name, also if it carries an errno."""
    default = SECCOMP_RET_ERRNO | 38
    error = seccomp._refused(22, lib.FILTER_DEFAULT_ACTION, 0, default, [], [], [])
    assert "linux.seccomp.defaultAction: SCMP_ACT_ERRNO is refused by" in str(error)
