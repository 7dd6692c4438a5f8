"""Steps of `restore` around CRIU, and their errors."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import ConfigError, ContainerError, CriuError, HostError
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.checkpoint import restore as module
from ociruntime.runtime.lifecycle.checkpoint.criu_options import CriuOptions
from ociruntime.runtime.lifecycle.checkpoint.image_record import ImageRecord
from ociruntime.runtime.lifecycle.checkpoint.restore import Restoration, make_mount_point
from ociruntime.runtime.lifecycle.context import Context, CreateOptions

GONE = 1 << 22  # no process has this pid


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_mount_points(tmp_path: Path) -> None:
    """Missing parents are created, and existing files and directories are left alone."""
    for _ in range(2):
        make_mount_point(str(tmp_path), "/a/b/file", is_file=True)
        make_mount_point(str(tmp_path), "/a/c", is_file=False)
        (tmp_path / "a/b/file").write_text("kept")
    assert (tmp_path / "a/b/file").read_text() == "kept"
    assert (tmp_path / "a/c").is_dir()


@pytest.mark.parametrize("target", ["/link/point", "/link/deeper/point"])
def test_links_in_the_root_are_not_followed(tmp_path: Path, target: str) -> None:
    """A checkpointed image may contain a link to a directory of the host."""
    root, host = tmp_path / "root", tmp_path / "host"
    root.mkdir()
    host.mkdir()
    (root / "link").symlink_to(host)
    before = descriptors()
    for is_file in (False, True):
        make_mount_point(str(root), target, is_file=is_file)
    assert list(host.iterdir()) == []
    assert descriptors() == before


def test_link_in_place_of_a_mount_point(tmp_path: Path) -> None:
    (tmp_path / "point").symlink_to(tmp_path / "new")
    make_mount_point(str(tmp_path), "/point", is_file=True)
    assert not (tmp_path / "new").exists()


def test_refused_mount_point(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f'"{tmp_path}/gone/a/b": no such file'):
        make_mount_point(f"{tmp_path}/gone", "/a/b", is_file=False)


def restoration_of(config: Any, **members: object) -> Any:  # noqa: ANN401
    """Return a restoration of which only the given members exist."""
    prepared = SimpleNamespace(
        config=config, cgroup=SimpleNamespace(processes=list), bundle=SimpleNamespace(path="/b")
    )
    options = CreateOptions("c1", "/b")
    restoration: Any = Restoration(Context("/gone", Log()), options, cast("Any", prepared))
    record = ImageRecord({}, ["", "", ""], [])
    restoration.describe("criu", CriuOptions("/i", "/w"), record, foreground=False)
    for name, value in members.items():
        setattr(restoration, name, value)
    return restoration


def joining(**paths: str) -> Any:  # noqa: ANN401
    namespaces = [{"type": kind, "path": path} for kind, path in paths.items()]
    return {
        "root": {"path": "r"},
        "linux": {"namespaces": [{"type": "mount"}, *namespaces]},
    }


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ([], {"network": "/n"}, "path: network, .* none"),
        (["network"], {}, "path: none, .* network"),
        (["ipc", "network"], {"network": "/n"}, "path: network, .* ipc, network"),
    ],
)
def test_other_joined_namespaces(before: list[str], now: dict[str, str], words: str) -> None:
    restoration = restoration_of(joining(**now), _record=ImageRecord({}, [], before))
    with pytest.raises(ContainerError, match=rf"linux\.namespaces: .*{words}"):
        restoration._open_inherited()


def test_joined_namespace_that_is_gone(tmp_path: Path) -> None:
    path = f"{tmp_path}/net"
    restoration = restoration_of(joining(network=path), _record=ImageRecord({}, [], ["network"]))
    with pytest.raises(HostError, match=f'"{path}": no such file'):
        restoration._open_inherited()
    assert restoration._inherited == []


class FakeSession:
    """A criu with a given response; ``pid`` is that of a process that has exited."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.pid = GONE

    def request(self, request: object, stage: object) -> dict[str, Any]:
        return self.answer

    def close(self) -> None:
        pass


def test_refused_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in criu's log."""
    (tmp_path / "restore.log").write_text("(0.1) Error (criu/x.c:1): Can't do it\n")
    monkeypatch.setattr(Restoration, "_options_of_criu", lambda self: {})
    session = FakeSession({"success": False})
    restoration = restoration_of({}, _session=session, _criu=CriuOptions("/i", str(tmp_path)))
    with pytest.raises(CriuError, match=r'container "c1": criu: .*do it') as caught:
        restoration._converse()
    assert f'"{tmp_path}/restore.log"' in caught.value.hint


def test_restored_init_that_has_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoration, "_options_of_criu", lambda self: {})
    session = FakeSession({"success": True, "restore": {"pid": GONE}})
    images, work = (os.open("/", os.O_RDONLY) for _ in range(2))
    restoration = restoration_of({}, _session=session, _images=images, _work=work)
    with pytest.raises(HostError, match=f"open process {GONE}, .*: no such process"):
        restoration._converse()
    for fd in (images, work):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)


def test_descriptor_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a terminal is kept; criu keeps its own copy of any other descriptor."""
    restoration = restoration_of({})
    read_end, write_end = os.pipe()
    restoration._stage("orphan-pts-master", 0, read_end)
    assert restoration.master == read_end
    restoration._stage("post-restore", 0, write_end)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(write_end)
    os.close(read_end)


PRIVILEGED = "State:\tR\nCapBnd:\t1\nCapPrm:\t1\nCapInh:\t0\nNoNewPrivs:\t1\n"


def test_privileges_of_the_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exited processes, and those of a user namespace of their own, do not count."""
    pids = {11, 12, 13}
    statuses = {11: [PRIVILEGED], 13: ["State:\tZ\n"]}

    def thread_statuses(pid: int) -> list[str]:
        if pid not in statuses:
            raise FileNotFoundError(2, "No such file or directory")
        return statuses[pid]

    monkeypatch.setattr(module, "thread_statuses", thread_statuses)
    monkeypatch.setattr(Restoration, "_restored", lambda self: pids)
    monkeypatch.setattr(Restoration, "_is_of_this_user_namespace", lambda self, pid: pid != 11)
    config: Any = {"process": {"capabilities": {}}}
    restoration = restoration_of(config)
    restoration._check_privileges()
    statuses[12] = ["State:\tR\n", PRIVILEGED]
    with pytest.raises(ContainerError, match=r'container "c1": .*CAP_CHOWN'):
        restoration._check_privileges()


def test_nothing_to_restrict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without missing mount flags, no executor is started."""

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "carry_out", fail)
    restoration_of({}, _first=os.getpid())._restrict_mounts()


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CriuOptions:
    """A directory of images for `restore`, and its other parts without an effect."""
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(module, "find_criu", lambda program: "criu")
    monkeypatch.setattr(module, "end_on_signals", lambda: None)
    monkeypatch.setattr(module, "check_directory", lambda path, kind: None)
    monkeypatch.setattr(module, "read_record", lambda path: ImageRecord({}, [], []))
    return CriuOptions(f"{tmp_path}/images", f"{tmp_path}/work")


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"rdt": object(), "network_devices": []}, "linux.intelRdt"),
        ({"rdt": None, "network_devices": [1]}, "linux.netDevices"),
    ],
)
def test_settings_that_need_an_executor(
    images: CriuOptions, monkeypatch: pytest.MonkeyPatch, members: dict[str, object], where: str
) -> None:
    monkeypatch.setattr(module, "prepare", lambda *_: SimpleNamespace(**members))
    with pytest.raises(ConfigError) as caught:
        module.restore(Context("/gone", Log()), CreateOptions("c1", "/b"), images)
    assert caught.value.where == where


def test_no_images(images: CriuOptions) -> None:
    os.rmdir(images.image_path)
    with pytest.raises(ContainerError, match=f'--image-path "{images.image_path}"'):
        module.restore(Context("/gone", Log()), CreateOptions("c1", "/b"), images)
    assert not os.path.exists(images.work_path)
