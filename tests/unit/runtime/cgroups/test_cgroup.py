"""A container's cgroup on a fake file system: creation, records, refusals and removal."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import cgroup_directory, cgroup_processes, control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Two v1 hierarchies, one of them named, and a unified one without controllers."""
    hierarchies = []
    for name, controllers, version in (
        ("pids", ("pids",), 1),
        ("systemd", (), 1),
        ("unified", (), 2),
    ):
        (tmp_path / name).mkdir()
        label = name if not controllers and version == 1 else ""
        hierarchies.append(Hierarchy(controllers, label, str(tmp_path / name), version))
    return Layout("hybrid", tuple(hierarchies))


@pytest.fixture(autouse=True)
def _no_device_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from ociruntime.runtime.cgroups.device_enforcement import DeviceRules

    monkeypatch.setattr(DeviceRules, "install", lambda self: None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_directory, "_REMOVAL_DEADLINE", 0.01)


def stored(cgroup: Cgroup) -> Cgroup:
    """Return the group that a later command would have."""
    return Cgroup.from_record(json.loads(json.dumps(cgroup.record())))


def directories(root: Path) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(place, name), root)
        for place, names, _ in os.walk(root)
        for name in names
    )


def test_plan_is_pure(layout: Layout, tmp_path: Path) -> None:
    cgroup = Cgroup.plan(layout, "pods/a", "c1")
    assert cgroup.paths == {
        f"{tmp_path}/pids": f"{tmp_path}/pids/pods/a",
        f"{tmp_path}/systemd": f"{tmp_path}/systemd/pods/a",
        f"{tmp_path}/unified": f"{tmp_path}/unified/pods/a",
    }
    assert cgroup.hierarchies() == (
        ("pids", f"{tmp_path}/pids/pods/a"),
        ("name=systemd", f"{tmp_path}/systemd/pods/a"),
        ("", f"{tmp_path}/unified/pods/a"),
    )
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


def test_the_same_place_from_every_caller(layout: Layout) -> None:
    elsewhere = [
        Hierarchy(each.controllers, each.name, each.mountpoint, each.version)
        for each in layout.hierarchies
    ]
    for value in ("a/b", "/a/b", None):
        here = Cgroup.plan(layout, value, "c1").paths
        assert Cgroup.plan(Layout("hybrid", tuple(elsewhere)), value, "c1").paths == here


def test_made_and_removed(layout: Layout, tmp_path: Path) -> None:
    before = directories(tmp_path)
    cgroup = Cgroup.plan(layout, "/pods/a", "c1")
    record = stored(cgroup)
    cgroup.create(None)
    assert all(os.path.isdir(path) for path in cgroup.paths.values())
    assert not cgroup.adopted
    record.remove()
    assert directories(tmp_path) == before
    record.remove()


def test_what_was_there_stays(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "pids" / "pods").mkdir()
    (tmp_path / "unified" / "pods" / "a").mkdir(parents=True)
    before = directories(tmp_path)
    (tmp_path / "unified" / "pods" / "a" / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    (tmp_path / "unified" / "pods" / "a" / "cgroup.freeze").write_text("0\n")
    cgroup = Cgroup.plan(layout, "/pods/a", "c1")
    record = stored(cgroup)
    cgroup.create({})
    assert cgroup.adopted
    record.remove()
    assert directories(tmp_path) == before


@pytest.mark.parametrize("made", range(4))
def test_removal_after_a_crash_in_creation(layout: Layout, tmp_path: Path, made: int) -> None:
    before = directories(tmp_path)
    record = stored(Cgroup.plan(layout, "/pods/a", "c1"))
    for path in list(record.paths.values())[:made]:
        os.makedirs(path)
    if made == 3:
        os.rmdir(record.paths[f"{tmp_path}/unified"])
    record.kill()
    record.remove()
    assert directories(tmp_path) == before


def test_a_parent_that_others_use_by_now_stays(layout: Layout, tmp_path: Path) -> None:
    first, second = (Cgroup.plan(layout, f"/pods/{name}", name) for name in "ab")
    first.record()
    second.record()
    first.create(None)
    second.create(None)
    first.remove()
    assert os.path.isdir(tmp_path / "pids" / "pods" / "b")
    assert not os.path.exists(tmp_path / "pids" / "pods" / "a")


def test_a_parent_that_vanishes_is_made_again(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "pids" / "pods").mkdir()
    cgroup = Cgroup.plan(layout, "/pods/a", "c1")
    cgroup.record()
    (tmp_path / "pids" / "pods").rmdir()
    cgroup.create(None)
    cgroup.remove()
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


def test_a_directory_that_somebody_else_makes_first_is_theirs(
    layout: Layout, tmp_path: Path
) -> None:
    cgroup = Cgroup.plan(layout, "/pods/a", "c1")
    cgroup.record()
    (tmp_path / "pids" / "pods").mkdir()
    cgroup.create(None)
    stored(cgroup).remove()
    assert directories(tmp_path) == ["pids", "pids/pods", "systemd", "unified"]


def test_sub_cgroups_of_the_container_go_with_it(layout: Layout, tmp_path: Path) -> None:
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create(None)
    os.makedirs(tmp_path / "unified" / "c1" / "payload" / "deep")
    os.makedirs(tmp_path / "pids" / "c1" / "x")
    cgroup.remove()
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


def test_removal_names_who_is_left(layout: Layout, tmp_path: Path, impatient: None) -> None:
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create(None)
    (tmp_path / "pids" / "c1" / "cgroup.procs").write_text("12\n7\n0\n")
    with pytest.raises(
        HostError, match=r"pids/c1\": .*busy \(processes still running: 7, 12\)"
    ) as caught:
        cgroup.remove()
    assert "systemd" not in str(caught.value)
    (tmp_path / "pids" / "c1" / "cgroup.procs").unlink()
    cgroup.remove()
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


def test_removal_kills_only_where_somebody_is_left(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[str] = []
    monkeypatch.setattr(Cgroup, "kill", lambda self: killed.append(self.path))
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create(None)
    cgroup.remove(kill=True)
    assert killed == []
    cgroup.create(None)
    occupied = tmp_path / "pids" / "c1" / "cgroup.procs"
    occupied.touch()
    monkeypatch.setattr(Cgroup, "kill", lambda self: occupied.unlink())
    cgroup.remove(kill=True)
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


@pytest.mark.parametrize(
    ("inner", "goes_to"),
    [("0::/outer/c1/payload/x\n", "payload/x"), ("0::/outer/c2\n", ""), ("1:pids:/c1/x\n", "")],
)
def test_beside_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str, goes_to: str
) -> None:
    """EBUSY where the payload has passed controllers on: its own cgroup is the place then."""
    written: list[str] = []

    def write(path: str, value: str) -> None:
        if path.endswith("/c1/cgroup.procs"):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        written.append(path)

    monkeypatch.setattr(control_files, "write", write)
    monkeypatch.setattr(control_files, "read", lambda path: inner)
    layout = Layout("v2", (Hierarchy((), "", str(tmp_path), 2),))
    cgroup = Cgroup.plan(layout, None, "c1")
    if goes_to:
        cgroup.attach(5, beside=4)
        assert written == [f"{tmp_path}/c1/{goes_to}/cgroup.procs"]
    else:
        with pytest.raises(HostError, match="cannot have processes"):
            cgroup.attach(5, beside=4)
    with pytest.raises(HostError, match="cannot have processes"):
        cgroup.attach(5)


@pytest.mark.parametrize(
    ("place", "files", "words"),
    [
        ("pids/c1", {"cgroup.procs": "41\n"}, 'c1" is not empty: .* 41'),
        ("pids/c1/deeper", {"cgroup.procs": "41\n42\n"}, "is not empty: .* 41, 42"),
        ("unified/c1", {"cgroup.events": "populated 1\nfrozen 0\n"}, "is not empty"),
        ("unified/c1", {"cgroup.events": "populated 0\n", "cgroup.freeze": "1\n"}, "is frozen"),
        (
            "unified/c1",
            {"cgroup.events": "populated 0\nfrozen 1\n", "cgroup.freeze": "0\n"},
            "is frozen",
        ),
    ],
)
def test_a_cgroup_in_use_is_refused_and_left_alone(
    layout: Layout, tmp_path: Path, place: str, files: dict[str, str], words: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / place / name).write_text(content)
    before = directories(tmp_path)
    cgroup = Cgroup.plan(layout, "/c1", "c1")
    record = stored(cgroup)
    with pytest.raises(ConfigError, match=words) as caught:
        cgroup.create(None)
    assert caught.value.where == "linux.cgroupsPath"
    assert directories(tmp_path) == before
    assert record.processes() == []  # not its business
    assert cgroup.processes() == []


def test_nobody_of_a_foreign_cgroup_is_killed(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of before the look at a cgroup that existed says nothing about who is in it."""
    for name in ("pids", "systemd", "unified"):
        (tmp_path / name / "c1").mkdir()
        (tmp_path / name / "c1" / "cgroup.procs").write_text("41\n")
        (tmp_path / name / "c1" / "cgroup.kill").write_text("")
    hit: list[Any] = []
    monkeypatch.setattr(cgroup_processes, "signal_pinned", lambda *given: hit.append(given))
    stored(Cgroup.plan(layout, "/c1", "c1")).kill()
    assert hit == []
    assert (tmp_path / "unified" / "c1" / "cgroup.kill").read_text() == ""


def test_an_adopted_cgroup_is_killed(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pids" / "c1").mkdir()
    cgroup = Cgroup.plan(layout, "/c1", "c1")
    cgroup.create(None)
    (tmp_path / "pids" / "c1" / "cgroup.procs").write_text("41\n")
    hit: list[list[int]] = []
    monkeypatch.setattr(
        cgroup_processes, "signal_pinned", lambda wanted, *_: hit.append(list(wanted))
    )
    stored(cgroup).kill()
    assert hit == [[41]]


def test_bad_resources_are_refused_before_anything_is_made(layout: Layout, tmp_path: Path) -> None:
    for resources in (
        {"memory": {"limit": 5}},
        {"devices": [{"type": "c"}]},
        {"unified": {"x": "1"}},
    ):
        with pytest.raises(ConfigError):
            Cgroup.plan(layout, None, "c1").create(resources)
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


def test_rootless_does_without_what_it_may_not_write(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import posix

    real = posix.mkdir

    def mkdir(path: str, mode: int) -> None:
        if "/pids/" in path:
            raise PermissionError(13, "Permission denied", path)
        real(path, mode)

    monkeypatch.setattr(posix, "mkdir", mkdir)
    with pytest.raises(HostError, match="permission denied"):
        Cgroup.plan(layout, None, "c1").create(None)
    with pytest.raises(HostError, match="permission denied"):
        Cgroup.plan(layout, None, "c1").create({"pids": {"limit": 1}}, rootless=True)
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create({"pids": {}}, rootless=True)
    assert directories(tmp_path) == ["pids", "systemd", "systemd/c1", "unified", "unified/c1"]
    assert [option for option, _ in cgroup.hierarchies()] == ["name=systemd", ""]


def test_rootless_does_without_device_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import posix

    def mkdir(path: str, _mode: int) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(posix, "mkdir", mkdir)
    layout = Layout("v1", (Hierarchy(("devices",), "", str(tmp_path), 1),))
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create({"devices": [{"allow": False, "access": "rwm"}]}, rootless=True)
    assert cgroup.paths == {}


def test_limits_and_attachment(layout: Layout, tmp_path: Path) -> None:
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create({"pids": {"limit": 7}})
    files = [f"{path}/cgroup.procs" for path in cgroup.paths.values()]
    for file in files:
        Path(file).touch()
    (tmp_path / "pids" / "c1" / "pids.max").touch()
    cgroup.apply({"pids": {"limit": 7}})
    cgroup.attach(123)
    assert (tmp_path / "pids" / "c1" / "pids.max").read_text() == "7"
    assert [Path(file).read_text() for file in files] == ["123"] * 3
    for file in files:
        Path(file).write_text("")
    cgroup.attach(123, born_in_v2=True)
    assert [Path(file).read_text() for file in files] == ["123", "123", ""]
    fd = cgroup.open_v2()
    assert os.readlink(f"/proc/self/fd/{fd}") == cgroup.paths[f"{tmp_path}/unified"]
    os.close(fd)


def test_out_of_memory(tmp_path: Path) -> None:
    for version, file, text, killed in (
        (1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        (1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
        (2, "memory.events", "low 0\noom 1\noom_kill 1\n", True),
        (2, "nothing", "", False),
    ):
        top = tmp_path / f"{version}{file}{killed}"
        (top / "c1").mkdir(parents=True)
        (top / "c1" / file).write_text(text)
        layout = Layout("v1", (Hierarchy(("memory",), "", str(top), version),))
        assert Cgroup.plan(layout, None, "c1").oom_killed() is killed


def test_a_host_without_cgroups() -> None:
    cgroup = Cgroup.plan(Layout("v1", ()), "/a", "c1")
    cgroup.create({"memory": {"limit": 0}})
    cgroup.apply({})
    cgroup.attach(1)
    cgroup.kill()
    cgroup.remove()
    assert (cgroup.open_v2(), cgroup.processes(), cgroup.frozen()) == (-1, [], False)
    with pytest.raises(ConfigError, match=r"^linux\.resources\.devices"):
        cgroup.create({"devices": [{"allow": False}]})


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EBUSY, "enables controllers"),
        (errno.EACCES, "delegated"),
        (errno.ENOSPC, "cpuset.mems"),
        (errno.ESRCH, "has exited"),
        (errno.EOPNOTSUPP, "threaded"),
        (errno.EIO, ""),
    ],
)
def test_refused_entry(layout: Layout, tmp_path: Path, number: int, hint: str) -> None:
    """The executor reports which of the v1 cgroups it could not enter."""
    cgroup = Cgroup.plan(layout, None, "c1")
    error = cgroup.entry_failure(71, 1, OSError(number, os.strerror(number)))
    assert error.message.startswith(f'move process 71 into cgroup "{tmp_path}/systemd/c1": ')
    assert error.errno == number
    assert hint in error.hint
    assert bool(error.hint) is bool(hint)


def test_entrances(layout: Layout, tmp_path: Path) -> None:
    """If one of them cannot be opened, the others are closed."""
    cgroup = Cgroup.plan(layout, None, "c1")
    cgroup.create(None)
    (tmp_path / "pids/c1/tasks").touch()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(HostError, match=r'open cgroup ".*/systemd/c1": no such file'):
        cgroup.open_v1_entrances()
    assert os.listdir("/proc/self/fd") == before


def test_not_made_ahead(tmp_path: Path) -> None:
    """On a host with only one version, there is nothing to create in the meantime."""
    for version in (1, 2):
        layout = Layout(f"v{version}", (Hierarchy((), "x", str(tmp_path), version),))
        assert not Cgroup.plan(layout, None, "c1").make_v2()
    assert directories(tmp_path) == []


def test_failed_creation_that_cannot_be_undone(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error is reported; a later command removes what the record names."""
    cgroup = Cgroup.plan(layout, None, "c1")
    record = stored(cgroup)

    def fail(*_: object) -> None:
        raise HostError("x", OSError(errno.EBUSY, os.strerror(errno.EBUSY)))

    def enable(self: Cgroup, settings: object) -> None:
        raise ConfigError("linux.resources", "refused")

    monkeypatch.setattr(Cgroup, "_enable", enable)
    with monkeypatch.context() as patch:
        patch.setattr("ociruntime.runtime.cgroups.cgroup.remove_all", fail)
        with pytest.raises(ConfigError, match="refused"):
            cgroup.create(None)
    assert (tmp_path / "pids/c1").is_dir()
    record.remove()
    assert directories(tmp_path) == ["pids", "systemd", "unified"]


@pytest.mark.parametrize(
    ("number", "refused"), [(0, False), (errno.ENODEV, False), (errno.EACCES, True)]
)
def test_v1_processes_are_frozen_while_they_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    """So that none can fork; the cgroup may be removed in the meantime."""
    seen: list[str] = []

    def write(path: str, value: str) -> None:
        assert path == f"{tmp_path}/c1/freezer.state"
        seen.append(value)
        if value == "FROZEN" and number:
            raise OSError(number, os.strerror(number), path)

    (tmp_path / "c1").mkdir()
    (tmp_path / "c1/cgroup.procs").write_text("41\n")
    cgroup = Cgroup.plan(Layout("v1", (Hierarchy(("freezer",), "", str(tmp_path), 1),)), None, "c1")
    cgroup.placements[0].existing = 0
    monkeypatch.setattr(cgroup_processes, "kill_each", lambda _: seen.append("kill"))
    monkeypatch.setattr(control_files, "write", write)
    monkeypatch.setattr("ociruntime.runtime.cgroups.freezer.write", write)
    if refused:
        with pytest.raises(HostError, match=r'freeze cgroup ".*/c1": permission denied'):
            cgroup.kill()
    else:
        cgroup.kill()
        assert seen == ["FROZEN", "kill", "THAWED"]
