"""The state root of each kind of caller."""

from __future__ import annotations

import posix
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle import state_root as module
from ociruntime.runtime.lifecycle.context import Context, open_context
from ociruntime.runtime.lifecycle.state_root import (
    absolute_path,
    is_rootless,
    make_root,
    state_root,
)

XDG = {b"XDG_RUNTIME_DIR": b"/run/user/7"}


@pytest.fixture
def in_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_user_namespace", lambda: True)


@pytest.fixture
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_user_namespace", lambda: False)


def test_root_uses_run_whatever_the_environment(on_the_host: None) -> None:
    assert state_root("", {}, 0) == "/run/ociruntime"
    assert state_root("", XDG, 0) == "/run/ociruntime"


def test_user_uses_the_runtime_directory() -> None:
    assert state_root("", XDG, 1000) == "/run/user/7/ociruntime"
    assert state_root("", {}, 1000) == "/run/ociruntime"
    assert state_root("", {b"XDG_RUNTIME_DIR": b""}, 1000) == "/run/ociruntime"


def test_root_of_a_user_namespace_is_a_user(in_user_namespace: None) -> None:
    # podman gives kill and delete no environment but XDG_RUNTIME_DIR.
    assert state_root("", XDG, 0) == "/run/user/7/ociruntime"
    assert state_root("", {**XDG, b"USER": b"alice"}, 0) == "/run/user/7/ociruntime"
    assert state_root("", {**XDG, b"USER": b"root"}, 0) == "/run/ociruntime"
    assert is_rootless({}, 0)


def test_given_root_wins_and_becomes_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_root("s", XDG, 1000) == f"{tmp_path}/s"
    assert state_root("/a/./b//../c/", XDG, 1000) == "/a/c"


@pytest.mark.parametrize("root", ["/", "//", "/a/..", "/../..", "/."])
def test_slash_is_no_root(root: str) -> None:
    with pytest.raises(UsageError):
        state_root(root, {}, 0)


def test_path_in_a_deleted_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(HostError):
        absolute_path("x")
    assert absolute_path("/x") == "/x"


def test_root_is_made_private_with_its_parents(tmp_path: Path) -> None:
    context = Context(f"{tmp_path}/a/b/c", Log())
    make_root(context)
    make_root(context)
    for directory in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"):
        assert directory.stat().st_mode & 0o7777 == 0o700


def test_default_root_of_a_user_is_kept_from_being_pruned(tmp_path: Path) -> None:
    context = Context(f"{tmp_path}/ociruntime", Log(), root_given=False)
    make_root(context)
    assert Path(context.root).stat().st_mode & 0o7777 == 0o1700
    Path(context.root).chmod(0o700)
    make_root(context)
    assert Path(context.root).stat().st_mode & 0o7777 == 0o700


def test_root_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError) as caught:
        make_root(Context(f"{tmp_path}/file/root", Log(), root_given=False))
    assert "not a directory" in str(caught.value)
    assert "pass --root" in str(caught.value)


def test_who_is_rootless_unless_told(on_the_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for euid, automatic in ((0, False), (1000, True)):
        monkeypatch.setattr(posix, "geteuid", lambda euid=euid: euid)
        assert open_context(Log(), "/r").rootless is automatic
        assert open_context(Log(), "/r", rootless="true").rootless
        assert not open_context(Log(), "/r", rootless="false").rootless


def test_context_of_a_named_root() -> None:
    context = open_context(Log(), "/r", "systemd")
    assert (context.root, context.root_given, context.cgroup_manager) == ("/r", True, "systemd")
    assert not open_context(Log()).root_given
