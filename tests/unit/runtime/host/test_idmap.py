"""The writer of an id map, and its errors."""

from __future__ import annotations

import errno
import os
import posix
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError, StepError
from ociruntime.runtime.host import idmap
from ociruntime.runtime.host.idmap import (
    GID,
    UID,
    find_helper,
    granted_ranges,
    is_granted,
    is_own_id,
    missing_line,
    run_helper,
    write_maps,
)


def extent(inside: int, outside: int, size: int) -> Any:  # noqa: ANN401
    return {"containerID": inside, "hostID": outside, "size": size}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The user 1000 of the group 100; the maps written and the helpers called."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(posix, "geteuid", lambda: 1000)
    monkeypatch.setattr(posix, "getegid", lambda: 100)
    monkeypatch.setattr(idmap, "_write", lambda pid, name, text: found.append((name, text)))
    monkeypatch.setattr(
        idmap,
        "run_helper",
        lambda kind, pid, numbers: found.append((kind.helper, " ".join(numbers))),
    )
    return found


def test_own_id_is_written_directly(calls: list[tuple[str, str]]) -> None:
    write_maps(5, [extent(0, 1000, 1)], [extent(3, 100, 1)])
    assert calls == [("setgroups", "deny"), ("gid_map", "3 100 1\n"), ("uid_map", "0 1000 1\n")]


def test_ranges_are_left_to_the_helpers(calls: list[tuple[str, str]]) -> None:
    ranges = [extent(0, 1000, 1), extent(1, 100000, 65536)]
    write_maps(5, ranges, ranges)
    assert calls == [
        ("newgidmap", "0 1000 1 1 100000 65536"),
        ("newuidmap", "0 1000 1 1 100000 65536"),
    ]


def test_another_single_id_is_not_ones_own(calls: list[tuple[str, str]]) -> None:
    write_maps(5, [extent(0, 100000, 1)], [extent(0, 100, 1)])
    assert [name for name, _ in calls] == ["setgroups", "gid_map", "newuidmap"]


def test_root_writes(calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "geteuid", lambda: 0)
    write_maps(5, [extent(0, 7, 9)], [extent(0, 8, 9)])
    assert calls == [("gid_map", "0 8 9\n"), ("uid_map", "0 7 9\n")]


def test_is_own_id() -> None:
    assert is_own_id([extent(5, 7, 1)], 7)
    assert not is_own_id([extent(5, 7, 2)], 7)
    assert not is_own_id([extent(5, 8, 1)], 7)


SUBUID = "# a comment\nann:100000:65536\n1000:300000:5\nbob:1:2\nann:bad:7\nann\n\n"


def test_granted_ranges_are_of_plain_digits() -> None:
    """A superscript two is a digit to Unicode, but no number."""
    assert granted_ranges("ann:\u00b2:65536\nann:5:\u00b2\nann:7:8\n", "ann", 1000) == [(7, 8)]


def test_granted_ranges() -> None:
    assert granted_ranges(SUBUID, "ann", 1000) == [(100000, 65536), (300000, 5)]
    assert granted_ranges(SUBUID, "", 7) == []


@pytest.mark.parametrize(
    ("first", "size", "granted"),
    [(100000, 65536, True), (100001, 65536, False), (99999, 1, False), (1000, 1, True),
     (1000, 2, False)],
)  # fmt: skip
def test_is_granted(first: int, size: int, granted: bool) -> None:
    assert is_granted(first, size, [(100000, 65536)], own=1000) is granted


@pytest.mark.parametrize(
    ("first", "size", "granted"),
    [(100, 30, True), (105, 25, True), (109, 2, True), (100, 31, False), (110, 25, False),
     (119, 12, False), (140, 5, True)],
)  # fmt: skip
def test_adjacent_ranges_are_one(first: int, size: int, granted: bool) -> None:
    """newuidmap(1) accepts ids that two lines of /etc/subuid grant together."""
    ranges = [(120, 10), (100, 10), (110, 10), (140, 5)]
    assert is_granted(first, size, ranges, own=1000) is granted


def test_missing_line() -> None:
    text = missing_line("/etc/subuid", "ann", 5, 6, [])
    assert text.startswith("/etc/subuid grants ann no range; as root: echo ann:5:6 >>/etc/subuid")
    assert "grants ann 1:2, 3:4;" in missing_line("/etc/subuid", "ann", 5, 6, [(1, 2), (3, 4)])


def test_not_installed(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"linux\.uidMappings: newuidmap is not installed.*uidmap"
    ):
        find_helper(UID, [str(tmp_path)])


def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    for kind in (UID, GID):
        (tmp_path / kind.helper).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / kind.helper).chmod(0o755)
    monkeypatch.setattr(idmap, "find_helper", lambda kind: f"{tmp_path}/{kind.helper}")


def test_helper_is_told_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, f'echo "$@" >{tmp_path}/told')
    run_helper(UID, 7, ["0", "1000", "1"])
    assert (tmp_path / "told").read_text() == "7 0 1000 1\n"


def test_helper_without_privileges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range is granted, and yet: the file's mode is at fault."""
    helper(tmp_path, monkeypatch, "echo write to uid_map failed >&2; exit 1")
    monkeypatch.setattr(idmap, "user_name", lambda uid: "ann")
    monkeypatch.setattr(idmap, "granted_ranges", lambda *facts: [(5, 10)])
    with pytest.raises(StepError, match=r"write to uid_map failed.*is not setuid.*chmod u.s"):
        run_helper(UID, 7, ["0", "5", "10"])
    with pytest.raises(
        ConfigError, match=r"linux\.gidMappings\[1\]: gids 9 to 18: user ann may not"
    ):
        run_helper(GID, 7, ["0", "5", "1", "1", "9", "10"])


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(pid: int, name: str, text: str) -> None:
        raise HostError("write the map", OSError(number, os.strerror(number)))

    monkeypatch.setattr(posix, "geteuid", lambda: 0)
    monkeypatch.setattr(idmap, "_write", fail)


def test_ids_that_are_not_mapped_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root of a user namespace can only pass on ids that are mapped there."""
    refuse(monkeypatch, errno.EPERM)
    own = tmp_path / "map"
    own.write_text("0 1000 10\n10 5000 10\n")
    monkeypatch.setattr(
        "builtins.open", lambda path, encoding, real=open: real(own, encoding=encoding)
    )
    inside, across = extent(0, 5, 10), extent(10, 20, 1)
    with pytest.raises(ConfigError, match="ids 20 to 20") as caught:
        write_maps(5, [inside], [extent(0, 0, 5), across])
    assert caught.value.where == "linux.gidMappings[1]"
    assert "/proc/self/gid_map" in caught.value.hint
    with pytest.raises(ConfigError, match="ids 5 to 14"):
        write_maps(5, [extent(0, 0, 5)], [inside])
    with pytest.raises(HostError):
        write_maps(5, [extent(0, 0, 5)], [extent(0, 0, 5)])


def test_other_refusal_of_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EINVAL)
    with pytest.raises(HostError, match="invalid argument"):
        write_maps(5, [extent(0, 1 << 33, 5)], [extent(0, 1 << 33, 5)])


def test_unreadable_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("builtins.open", fail)
    assert idmap._unmapped(UID, [extent(0, 1, 1)]) == -1
    assert idmap._content("/proc/self/status") == ""


def test_helper_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idmap, "find_helper", lambda kind: f"{tmp_path}/gone")
    with pytest.raises(HostError, match=f'start "{tmp_path}/gone": no such file'):
        run_helper(UID, 7, ["0", "5", "10"])


@pytest.mark.parametrize(
    ("name", "status", "mode", "hint"),
    [
        ("", "", 0o4755, "/etc/passwd"),
        ("ann", "NoNewPrivs:\t1\n", 0o4755, "no_new_privs"),
        ("ann", "NoNewPrivs:\t0\n", 0o755, "chmod u+s"),
        ("ann", "NoNewPrivs:\t0\n", 0o4755, ""),
    ],
)
def test_cause_of_a_failed_helper(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    status: str,
    mode: int,
    hint: str,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("the helper must belong to root")
    helper(tmp_path, monkeypatch, "exit 1")
    (tmp_path / UID.helper).chmod(mode)
    monkeypatch.setattr(idmap, "user_name", lambda uid: name)
    monkeypatch.setattr(idmap, "granted_ranges", lambda *facts: [(5, 10)])
    monkeypatch.setattr(idmap, "_content", lambda path: status)
    with pytest.raises(StepError) as caught:
        run_helper(UID, 7, ["0", "5", "10"])
    assert hint in caught.value.hint
    assert bool(caught.value.hint) is bool(hint)
    assert f"{tmp_path}/{UID.helper}" in caught.value.message


def test_privileged_helper(tmp_path: Path) -> None:
    assert not idmap._is_privileged(f"{tmp_path}/gone")
