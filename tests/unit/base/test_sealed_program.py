"""Copies of programs in memory, which no process can change."""

from __future__ import annotations

import errno
import fcntl
import os
import posix
from pathlib import Path

import pytest

from ociruntime.base import sealed_program as module
from ociruntime.base.errors import HostError, InternalError
from ociruntime.base.sealed_program import sealed_program


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program").write_bytes(b"#!/bin/sh\n")
    return str(tmp_path / "program")


def test_copy(program: str) -> None:
    fd = sealed_program(program)
    assert os.pread(fd, 100, 0) == b"#!/bin/sh\n"
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    assert seals & fcntl.F_SEAL_SEAL
    with pytest.raises(PermissionError):
        os.write(fd, b"x")
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_incomplete_installation(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f'open "{tmp_path}/gone": no such file') as caught:
        sealed_program(f"{tmp_path}/gone")
    assert "install" in caught.value.hint


def test_truncated_program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(posix, "sendfile", lambda *_: 0)
    with pytest.raises(InternalError, match="truncated"):
        sealed_program(program)
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(("number", "tries"), [(errno.EINVAL, 2), (errno.EMFILE, 1)])
def test_kernel_without_executable_memory_files(
    program: str, monkeypatch: pytest.MonkeyPatch, number: int, tries: int
) -> None:
    """Before Linux 6.3 there is no flag for them, and every memory file is executable."""
    before = os.listdir("/proc/self/fd")
    create, flags = posix.memfd_create, list[int]()

    def old(name: str, given: int) -> int:
        flags.append(given)
        if given & module.MFD_EXEC:
            raise OSError(number, os.strerror(number))
        return create(name, given)

    monkeypatch.setattr(posix, "memfd_create", old)
    if tries == 2:
        os.close(sealed_program(program))
    else:
        with pytest.raises(HostError, match=f'"{program}" .*: too many open files'):
            sealed_program(program)
    assert len(flags) == tries
    assert os.listdir("/proc/self/fd") == before
