"""Finding resctrl, and its errors, with a directory in its place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle import intel_rdt_groups
from ociruntime.runtime.lifecycle.rollback import Rollback
from ociruntime.runtime.spec.config_types import IntelRdt

MOUNTINFO = """\
22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw
30 22 0:33 / /sys/fs/resctrl\\040here rw,relatime shared:9 - resctrl resctrl rw,cdp
"""


def test_mount_point() -> None:
    assert intel_rdt_groups.find_mountpoint(MOUNTINFO) == "/sys/fs/resctrl here"
    assert intel_rdt_groups.find_mountpoint(MOUNTINFO.splitlines()[0]) == ""
    assert intel_rdt_groups.find_mountpoint("") == ""


def group(path: Path, schemata: str = "") -> Path:
    path.mkdir()
    (path / "tasks").touch()
    (path / "schemata").write_text(schemata)
    return path


def test_look(tmp_path: Path) -> None:
    found = group(tmp_path / "gold", "L3:0=f\n")
    assert intel_rdt_groups.inspect(str(tmp_path), str(found)) == (True, "L3:0=f\n", False)
    (tmp_path / "mon_groups").mkdir()
    assert intel_rdt_groups.inspect(str(tmp_path), str(tmp_path / "none")) == (False, "", True)


def test_monitoring_without_allocation(tmp_path: Path) -> None:
    (tmp_path / "tasks").touch()
    assert intel_rdt_groups.inspect(str(tmp_path), str(tmp_path)) == (True, "", False)


def test_failed_write_says_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "last_cmd_status").write_text("Mask out of range\n")
    with pytest.raises(RuntimeFailure) as caught:
        intel_rdt_groups.write(
            "linux.intelRdt.memBwSchema", f"{tmp_path}/none", "MB:0=7", str(tmp_path)
        )
    message = str(caught.value)
    assert message.startswith('linux.intelRdt.memBwSchema: write "MB:0=7"')
    assert message.endswith(f'{tmp_path}/none": no such file or directory: Mask out of range')


def test_no_group_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LNX-RDT-22."""

    def full(path: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(intel_rdt_groups, "make_directory", full)
    with pytest.raises(HostError, match=r"monitoring id"):
        intel_rdt_groups.make(f"{tmp_path}/c1")


def test_remove(tmp_path: Path) -> None:
    (tmp_path / "c1").mkdir()
    intel_rdt_groups.remove([f"{tmp_path}/c1", f"{tmp_path}/c1/gone"])
    assert list(tmp_path.iterdir()) == []


def test_remove_spares_who_lives_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[str] = []
    monkeypatch.setattr(intel_rdt_groups, "remove_directory", gone.append)
    for name, tasks in (("full", "17\n"), ("empty", "")):
        (group(tmp_path / name) / "tasks").write_text(tasks)
    intel_rdt_groups.remove([f"{tmp_path}/full", f"{tmp_path}/empty"], only_empty=True)
    assert gone == [f"{tmp_path}/empty"]


def test_mount_point_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy depends on the kernel: without support, nothing can be mounted."""
    files = {"/proc/filesystems": b"nodev\tresctrl\n"}
    monkeypatch.setattr(intel_rdt_groups, "own_mountinfo", lambda: MOUNTINFO)
    monkeypatch.setattr(intel_rdt_groups, "read_file", files.__getitem__)
    assert intel_rdt_groups.mountpoint() == "/sys/fs/resctrl here"
    monkeypatch.setattr(intel_rdt_groups, "own_mountinfo", str)
    with pytest.raises(ConfigError, match="not mounted") as caught:
        intel_rdt_groups.mountpoint()
    assert caught.value.hint.endswith("mount -t resctrl resctrl /sys/fs/resctrl")
    files["/proc/filesystems"] = b"nodev\tproc\n"
    with pytest.raises(ConfigError, match="support resctrl") as caught:
        intel_rdt_groups.mountpoint()
    assert not caught.value.hint


def test_unreadable_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(intel_rdt_groups, "own_mountinfo", refuse)
    with pytest.raises(HostError, match="/proc: permission denied"):
        intel_rdt_groups.mountpoint()


@pytest.fixture
def resctrl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for resctrl: a new group gets its files, and is removed with them."""

    def make(path: str) -> None:
        made = group(Path(path))
        if made.parent.name != "mon_groups":
            (made / "mon_groups").mkdir()

    root = tmp_path / "resctrl"
    make(str(root))
    monkeypatch.setattr(intel_rdt_groups, "mountpoint", lambda: str(root))
    monkeypatch.setattr(intel_rdt_groups, "make_directory", make)
    monkeypatch.setattr(intel_rdt_groups, "remove_directory", shutil.rmtree)
    return root


MONITORED: IntelRdt = {"closID": "gold", "l3CacheSchema": "L3:0=f", "enableMonitoring": True}


def enter(rdt: IntelRdt, directory: Path) -> Rollback:
    """Put process 71 into the groups of container ``c1``; return the commands that undo it."""
    rollback = Rollback(Log())
    placement = intel_rdt_groups.prepare_rdt(rdt, "c1")
    intel_rdt_groups.enter(placement, 71, str(directory), rollback)
    return rollback


def test_enter(resctrl: Path, tmp_path: Path) -> None:
    enter(MONITORED, tmp_path)
    gold = resctrl / "gold"
    assert (gold / "schemata").read_text() == "L3:0=f\n"
    assert (gold / "tasks").read_text() == (gold / "mon_groups/c1/tasks").read_text() == "71\n"


def test_failed_create(resctrl: Path, tmp_path: Path) -> None:
    failure = RuntimeFailure("x")
    enter(MONITORED, tmp_path).undo(failure)
    assert not (resctrl / "gold").exists()
    assert not hasattr(failure, "__notes__")


def test_unwritable_record(resctrl: Path, tmp_path: Path) -> None:
    """Without a record, nothing is created: after a kill, nothing could remove it."""
    with pytest.raises(HostError, match=r"rdt\.json.*no such file"):
        enter(MONITORED, tmp_path / "gone")
    assert not (resctrl / "gold").exists()


def test_delete_spares_a_shared_group(resctrl: Path, tmp_path: Path) -> None:
    """A group named by closID stays, the container's own monitoring group goes."""
    enter(MONITORED, tmp_path)
    intel_rdt_groups.leave(str(tmp_path))
    assert list((resctrl / "gold/mon_groups").iterdir()) == []


def test_delete_removes_an_own_group(resctrl: Path, tmp_path: Path) -> None:
    enter({"l3CacheSchema": "L3:0=f"}, tmp_path)
    assert (resctrl / "c1").is_dir()
    intel_rdt_groups.leave(str(tmp_path))
    assert not (resctrl / "c1").exists()


@pytest.mark.parametrize(("others", "kept"), [("", False), ("99\n", True)])
def test_killed_create(resctrl: Path, tmp_path: Path, others: str, kept: bool) -> None:
    """Its shared group is removed only if no other container has entered it."""
    enter(MONITORED, tmp_path)
    (resctrl / "gold/tasks").write_text(others)
    intel_rdt_groups.clear(str(tmp_path))
    assert (resctrl / "gold").exists() is kept
    assert not (resctrl / "gold/mon_groups/c1").exists()


def test_exec(resctrl: Path, tmp_path: Path) -> None:
    enter(MONITORED, tmp_path)
    intel_rdt_groups.follow(str(tmp_path), 72)
    gold = resctrl / "gold"
    assert (gold / "tasks").read_text() == (gold / "mon_groups/c1/tasks").read_text() == "72\n"


def test_no_groups(resctrl: Path, tmp_path: Path) -> None:
    """Without rdt.json, no command of the container touches resctrl."""
    before = sorted(resctrl.rglob("*"))
    intel_rdt_groups.follow(str(tmp_path), 72)
    intel_rdt_groups.leave(str(tmp_path))
    intel_rdt_groups.clear(str(tmp_path))
    assert sorted(resctrl.rglob("*")) == before
    assert not (resctrl / "tasks").read_text()


def test_unreadable_record(tmp_path: Path) -> None:
    (tmp_path / "rdt.json").mkdir()
    with pytest.raises(HostError, match=r"rdt\.json.*is a directory"):
        intel_rdt_groups.leave(str(tmp_path))


def test_unreadable_schemata(tmp_path: Path) -> None:
    (tmp_path / "tasks").touch()
    (tmp_path / "schemata").mkdir()
    with pytest.raises(HostError, match=r"/schemata.*is a directory"):
        intel_rdt_groups.inspect(str(tmp_path), str(tmp_path))


def test_group_that_cannot_be_removed(tmp_path: Path) -> None:
    group(tmp_path / "c1")
    with pytest.raises(HostError, match=r"/c1.*not empty"):
        intel_rdt_groups.remove([f"{tmp_path}/c1"])


CONFIG: Any = {"linux": {"intelRdt": {"closID": "gold"}}}


class Written:
    """Stands for ``write``: records the lines, and refuses those in ``refused``."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.lines: list[tuple[str, str]] = []

    def __call__(self, where: str, file: str, line: str, mount: str) -> None:
        assert file == f"{mount}/gold/schemata"
        if line in self.refused:
            raise RuntimeFailure(f"{where}: {line} refused")
        self.lines.append((where, line))


BEFORE = [("linux.intelRdt", "    L3:0=f"), ("linux.intelRdt", "    MB:0=100")]


def change(resctrl: Path, monkeypatch: pytest.MonkeyPatch, write: Written) -> list[str]:
    group(resctrl / "gold", "    L3:0=f\n    MB:0=100\n")
    monkeypatch.setattr(intel_rdt_groups, "write", write)
    return intel_rdt_groups.change(CONFIG, "c1", "L3:0=3", "MB:0=50")()


CHANGED = [("linux.intelRdt.l3CacheSchema", "L3:0=3"), ("linux.intelRdt.memBwSchema", "MB:0=50")]


def test_change_and_restore(resctrl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Written()
    assert change(resctrl, monkeypatch, write) == []
    assert write.lines == CHANGED + BEFORE


def test_refused_change(resctrl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel refuses the second line, the first one is restored."""
    write = Written("MB:0=50")
    with pytest.raises(RuntimeFailure, match=r"memBwSchema: MB:0=50 refused$"):
        change(resctrl, monkeypatch, write)
    assert write.lines == CHANGED[:1] + BEFORE


def test_refused_restoration(resctrl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause stays first, and the other lines are restored all the same."""
    write = Written("MB:0=50", "    L3:0=f")
    with pytest.raises(RuntimeFailure, match=r"memBwSchema: MB:0=50 refused; .* L3:0=f refused$"):
        change(resctrl, monkeypatch, write)
    assert write.lines == CHANGED[:1] + BEFORE[1:]
