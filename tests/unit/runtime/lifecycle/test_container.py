"""A container's state directory that vanishes, is damaged or cannot be written."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from ociruntime.base.errors import ContainerError, HostError, NoSuchContainer
from ociruntime.base.json_text import dump
from ociruntime.runtime.host.state_directory import Lock
from ociruntime.runtime.lifecycle import container as module
from ociruntime.runtime.lifecycle.container import Container, freezer_file, load, lock, owner_of
from tests.unit.runtime.lifecycle.test_fast_path_record import changed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    return tmp_path


def test_deleted_while_it_is_loaded(root: Path) -> None:
    with pytest.raises(NoSuchContainer):
        load(str(root), "one")
    (root / "one/state.json").mkdir()
    with pytest.raises(HostError, match=f'read "{root}/one/state.json": is a directory'):
        load(str(root), "one")


@pytest.mark.parametrize("document", [[], changed(version=2), {"ociVersion": "1.0.2"}])
def test_state_of_another_runtime(root: Path, document: object) -> None:
    (root / "one/state.json").write_text(dump(document))
    with pytest.raises(ContainerError, match=f'"one": "{root}/one/state.json" .*another'):
        load(str(root), "one")


def test_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a container that cannot be loaded is released."""
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NoSuchContainer):
        lock(str(root), "one")
    (root / "one/state.json").write_text(dump(changed()))
    container, held = lock(str(root), "one")
    assert (container.id, container.pid) == ("one", 71)
    held.release()
    monkeypatch.setattr(Lock, "acquire", lambda path, seconds: None)
    with pytest.raises(NoSuchContainer):
        lock(str(root), "one")
    assert os.listdir("/proc/self/fd") == before


def test_unwritable_record(root: Path) -> None:
    with pytest.raises(HostError, match=f'write "{root}/gone/x": no such file'):
        module._write(f"{root}/gone", "x", b"")


def test_owner_without_a_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    if os.geteuid() == 0:
        os.chown(root / "one", 4321, -1)
    uid = os.stat(root / "one").st_uid
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert owner_of(f"{root}/one") == (uid, f"#{uid}")


@pytest.mark.parametrize(
    ("hierarchies", "file"),
    [
        ((), ""),
        ((("memory", "/m/c1"),), ""),
        ((("", "/u/c1"),), "/u/c1/cgroup.freeze"),
        ((("memory", "/m/c1"), ("", "/u/c1")), "/u/c1/cgroup.freeze"),
        ((("", "/u/c1"), ("cpu,freezer", "/f/c1")), "/f/c1/freezer.state"),
    ],
)
def test_freezer_file(hierarchies: tuple[tuple[str, str], ...], file: str) -> None:
    """The freezer controller of v1 comes first: on a hybrid host it is the one in use."""
    assert freezer_file(hierarchies) == file


@pytest.mark.parametrize(
    ("text", "frozen"),
    [("FROZEN\n", True), ("FREEZING\n", True), ("THAWED\n", False), ("1\n", True), ("0\n", False),
     (None, False)],
)  # fmt: skip
def test_frozen(root: Path, text: str | None, frozen: bool) -> None:
    """A cgroup that was removed is not frozen."""
    file = root / "freezer.state"
    if text is not None:
        file.write_text(text)
    container = Container("one", f"{root}/one", changed(freezer=str(file)))
    assert container._frozen() is frozen


def test_removed_bundle(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of a container whose bundle is gone run in the present directory."""
    monkeypatch.chdir(root)
    Container("one", f"{root}/one", changed(bundle=f"{root}/gone")).enter_bundle()
    assert os.getcwd() == str(root)
    Container("one", f"{root}/one", changed(bundle=f"{root}/one")).enter_bundle()
    assert os.getcwd() == f"{root}/one"


def test_owner_that_cannot_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a missing directory means that the container was deleted."""
    from ociruntime.runtime.lifecycle import state

    def fail(directory: str) -> tuple[int, str]:
        raise HostError(f'stat "{directory}"', OSError(errno.EIO, os.strerror(errno.EIO)))

    monkeypatch.setattr(state, "owner_of", fail)
    with pytest.raises(HostError, match="input/output"):
        state.describe_container(Container("one", f"{root}/one", {"pid": 0, "processStart": 0}))
