"""Compiler hardening of the programs that run as root near a container."""

from __future__ import annotations

import platform
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support import project

SMALL = (
    "ociruntime/runtime/executor/_executor",
    "ociruntime/pods/monitor/_pod_init",
    "ociruntime/pods/monitor/_hibernation",
)
LAUNCHERS = (".venv/bin/ociruntime", ".venv/bin/ocipod", ".venv/bin/ocictl", ".venv/bin/ocid")
LARGE = "ociruntime/pods/kvm/_guest"
OWN_LIBC = platform.machine() in {"aarch64", "x86_64"}

LOAD = 1
STACK = 0x6474E551
RELRO = 0x6474E552
EXECUTE, WRITE = 1, 2


def segments(name: str) -> list[tuple[int, int]]:
    """Type and flags of a program's segments."""
    data = (project.ROOT / name).read_bytes()
    (table,) = struct.unpack_from("=Q", data, 32)
    size, count = struct.unpack_from("=HH", data, 54)
    found = [struct.unpack_from("=II", data, table + i * size) for i in range(count)]
    return [(kind, flags) for kind, flags in found]


@pytest.mark.parametrize("name", [*SMALL, *LAUNCHERS, LARGE])
def test_no_memory_is_both_written_and_executed(name: str) -> None:
    found = segments(name)
    assert all(flags & (WRITE | EXECUTE) != WRITE | EXECUTE for _, flags in found)
    assert [flags & EXECUTE for kind, flags in found if kind == STACK] == [0]
    assert any(kind == LOAD and flags & EXECUTE for kind, flags in found)


def test_relocated_tables_are_read_only() -> None:
    """The other programs have none: they are linked to fixed addresses without a C library."""
    assert RELRO in [kind for kind, _ in segments(LARGE)]


@pytest.mark.parametrize("name", [SMALL[0], SMALL[1], *LAUNCHERS, LARGE])
def test_overflows_are_noticed(name: str) -> None:
    """The words of the check behind each buffer of known size, and of the guard on the stack."""
    data = (project.ROOT / name).read_bytes()
    assert b"stack smashing detected" in data
    assert b"buffer overflow detected" in data


@pytest.mark.parametrize("name", ["_system_calls", "_seccomp"])
def test_extension_modules_are_bound_at_once(name: str) -> None:
    """Then the table of functions is read-only before the first call."""
    (module,) = (project.ROOT / "ociruntime").glob(f"{name}.*.so")
    assert RELRO in [kind for kind, _ in segments(str(module))]
    command = ["readelf", "--dynamic", "--wide", str(module)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "BIND_NOW" in found


@pytest.mark.skipif(not OWN_LIBC, reason="built with the C library here")
def test_checks_of_buffers(tmp_path: Path) -> None:
    program = str(tmp_path / "check_fortified")
    flags = ["-std=gnu11", "-O0", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *flags, "-o", program, "tests/executor/check_fortified.c"]
    subprocess.run(command, cwd=project.ROOT, check=True)
    ends = [subprocess.run([program, str(case)]).returncode for case in range(12)]
    assert ends == [0, *[42] * 11]
