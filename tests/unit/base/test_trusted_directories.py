"""Trusted directories: owner, mode, and the path to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base import trusted_directories
from ociruntime.base.errors import HostError
from ociruntime.base.trusted_directories import (
    check_directory,
    check_entry,
    check_file,
    check_link,
    check_parent,
    flaw,
    make_directory,
)

OTHER = 51234
DIRECTORY = 0o040000


def status(uid: int, mode: int) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, 0, 0, 0, 0, 0))


@pytest.fixture(params=[0, 1000])
def euid(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    uid: int = request.param
    monkeypatch.setattr("posix.geteuid", lambda: uid)
    return uid


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o755, 0o1700, 0o2750])
def test_our_own_and_roots_directories(euid: int, mode: int) -> None:
    assert flaw(status(euid, DIRECTORY | mode)) == ""
    assert flaw(status(0, DIRECTORY | mode)) == ""


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o1777])
def test_directories_that_others_may_write_to(euid: int, mode: int) -> None:
    problem = flaw(status(euid, DIRECTORY | mode))
    assert "writable" in problem
    assert f"{mode:04o}" in problem


def test_other_owners_and_other_kinds(euid: int) -> None:
    assert flaw(status(OTHER, DIRECTORY | 0o700)).endswith(f"uid {OTHER}")
    assert flaw(status(65534, DIRECTORY | 0o700)).endswith("uid 65534")
    assert flaw(status(euid, 0o100600)) == "not a directory"


@pytest.mark.parametrize("mapped", [False, True], ids=["on the host", "in another user namespace"])
def test_root_of_the_host_looks_like_nobody_in_a_user_namespace(
    monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    monkeypatch.setattr(trusted_directories, "in_user_namespace", lambda: mapped)
    problem = "" if mapped else "belongs to uid 65534"
    assert trusted_directories._flaw_on_the_way(status(65534, DIRECTORY | 0o755)) == problem


def test_what_is_missing_is_made(tmp_path: Path) -> None:
    path = f"{tmp_path}/a/./b//c"
    before = os.umask(0)
    try:
        assert not check_directory(path, "store")
        assert make_directory(path, 0o750, "store")
    finally:
        os.umask(before)
    assert not make_directory(path, 0o750, "store")
    for made in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"):
        assert made.stat().st_mode & 0o7777 == 0o750


def test_nothing_is_made_where_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostError) as caught:
        make_directory(f"{tmp_path}/a/b", 0o700, "store")
    assert f'"{tmp_path}/a/b": "{tmp_path}" is ' in caught.value.message
    assert "0777" in caught.value.message
    assert caught.value.hint
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o1777)
    assert make_directory(f"{tmp_path}/a/b", 0o700, "store")


def test_links_and_dots_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True, mode=0o755)
    (tmp_path / "real" / "below").chmod(0o755)
    (tmp_path / "link").symlink_to("real/below")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    for path in ("again", "again/../below", "./link/.", "real/../again"):
        assert check_directory(f"{tmp_path}/{path}", "store")
    assert not check_directory(f"{tmp_path}/again/../link", "store")
    (tmp_path / "real").chmod(0o777)
    with pytest.raises(HostError, match=r"real.* is world-writable"):
        check_directory(f"{tmp_path}/again", "store")


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(HostError, match="too many levels of symbolic links"):
        check_directory(f"{tmp_path}/a", "store")


def test_a_file_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(HostError, match=r"file[^ ]*: not a directory$"):
            check_directory(f"{tmp_path}/{path}", "store")


def test_a_socket_may_lie_in_a_sticky_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    check_parent(f"{tmp_path}/socket", "directory of the socket")
    tmp_path.chmod(0o777)
    with pytest.raises(HostError, match="sticky bit"):
        check_parent(f"{tmp_path}/socket", "directory of the socket")


def test_entry_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not check_entry(str(tmp_path / "gone"), "state directory")
    (tmp_path / "entry").mkdir(mode=0o700)
    assert check_entry(str(tmp_path / "entry"), "state directory")
    (tmp_path / "entry").chmod(0o777)
    with pytest.raises(HostError, match=f'"{tmp_path}/entry" is writable'):
        check_entry(str(tmp_path / "entry"), "state directory")
    with pytest.raises(HostError, match="not a directory"):
        check_entry(f"{__file__}/x", "state directory")


def owned_by_another(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let ``path`` belong to another user."""
    real = os.lstat

    def lstat(name: str, **_: int) -> os.stat_result:
        found = real(name)
        if str(name) != str(path):
            return found
        return os.stat_result((*found[:4], OTHER, *found[5:]))

    monkeypatch.setattr("posix.lstat", lstat)


def test_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file is no fault; a link, and another user's file, are."""
    path = tmp_path / "file"
    check_file(str(path), "policy")
    path.touch()
    check_file(str(path), "policy")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(HostError, match=f'"{tmp_path}/link" is a symbolic'):
        check_file(str(tmp_path / "link"), "policy")
    owned_by_another(monkeypatch, path)
    with pytest.raises(HostError, match=f'"{path}" belongs to uid {OTHER}'):
        check_file(str(path), "policy")
    with pytest.raises(HostError, match="not a directory"):
        check_file(f"{__file__}/x", "policy")


def test_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the link and of its directory is checked; its target is not."""
    (tmp_path / "to").mkdir()
    link = tmp_path / "link"
    link.symlink_to("to")
    check_link(str(link), "program")
    assert check_directory(f"{link}", "image store")
    owned_by_another(monkeypatch, link)
    for check, path in ((check_link, link), (check_directory, link)):
        with pytest.raises(HostError, match=f'"{link}" belongs to uid {OTHER}'):
            check(str(path), "image store")
    with pytest.raises(HostError, match="no such file"):
        check_link(str(tmp_path / "gone"), "program")


def test_kernel_without_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr("posix.stat", fail)
    assert not trusted_directories.in_user_namespace()
