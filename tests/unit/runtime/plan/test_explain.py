from __future__ import annotations

import json

import pytest

from ociruntime.base.paths import clean, is_below
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.explain import (
    arguments,
    describe,
    explain,
    operation_lines,
    plan_document,
)
from ociruntime.runtime.plan.operation_table import NO_SLOT, OPERATIONS
from ociruntime.runtime.plan.plan import Operation, Plan

EMPTY = {"u32": 0, "u64": 0, "str": "", "bytes": b"", "strs": ["x"], "u32s": [0]}


def operation(code: int) -> Operation:
    """An operation of that code whose values say nothing."""
    fields = OPERATIONS[code - 1][2]
    return Operation(code, tuple(EMPTY[kind] for _, kind, _ in fields), "")  # type: ignore[misc]


@pytest.mark.parametrize("code", range(1, len(OPERATIONS) + 1))
def test_every_operation_has_words(code: int) -> None:
    assert describe(operation(code))
    assert "\n" not in arguments(operation(code))


def test_describe() -> None:
    mount = operations.mount(
        fstype="proc",
        source="proc",
        target="/proc",
        options=[],
        attributes=0,
        propagation=0,
        flags=0,
        id_map=NO_SLOT,
        label="",
    )
    assert describe(mount) == 'mount proc on "/proc"'
    assert describe(operations.pivot_root()) == "pivot root"
    assert describe(operations.mask(target="/x", context="")) == 'mask "/x"'
    assert describe(operations.rlimit(resource=7, soft=1, hard=(1 << 64) - 1)) == (
        "set limit nofile to 1 (hard: unlimited)"
    )


def test_lines_name_the_setting() -> None:
    (line,) = operation_lines(
        [operations.mask(target="/x", context="", where="linux.maskedPaths[0]")], 12
    )
    assert line.split() == ["12", "mask", "/x", "#", "linux.maskedPaths[0]"]


def test_negative_nice() -> None:
    step = operations.scheduler(
        policy=0, flags=0, nice=0xFFFFFFFB, priority=0, runtime=0, deadline=0, period=0
    )
    assert arguments(step) == "SCHED_OTHER, nice -5"


def test_whole_plan() -> None:
    plan = Plan(clone_flags=0x20020000, preserve_fds=2)
    plan.add(operations.umask(mask=0o22, where="process.user.umask"))
    plan.add(operations.seccomp(flags=0, last=1, filter=bytes(16)))
    plan.warnings.append("something")
    assert explain(plan).splitlines() == [
        "  0  spawn           in new namespaces: mnt pid, keeping descriptors 3 to 4",
        f"{'  1  umask           0022':<78}  # process.user.umask",
        "  2  seccomp         2 instructions, flags 0x0",
        "warning: something",
    ]
    assert json.loads(json.dumps(plan_document(plan))) == {
        "namespaces": ["mnt", "pid"],
        "preserveFds": 2,
        "operations": [
            {"operation": "umask", "mask": 18, "where": "process.user.umask"},
            {"operation": "seccomp", "flags": 0, "last": 1, "filter": "00" * 16},
        ],
        "warnings": ["something"],
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "/"),
        ("", "/"),
        ("/a/", "/a"),
        ("a", "/a"),
        ("//a///b", "/a/b"),
        ("/a/..", "/"),
        ("/..", "/"),
        ("/a/.hidden", "/a/.hidden"),
        ("/a/../../b/./c", "/b/c"),
        ("/a/...", "/a/..."),
    ],
)
def test_clean(path: str, text: str) -> None:
    assert clean(path) == text


def test_is_below() -> None:
    assert is_below("/proc/x", "/proc")
    assert is_below("/x", "/")
    assert not is_below("/proc", "/proc")
    assert not is_below("/procx", "/proc")
