"""Finding resctrl, and its errors, with a directory in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.runtime.lifecycle import intel_rdt_groups

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
