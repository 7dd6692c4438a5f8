"""Control files with what is no number: counters without it, never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.files import whole_number
from ociruntime.manager.containers import resource_usage
from ociruntime.runtime.cgroups import control_files, statistics_v1, statistics_v2
from ociruntime.runtime.cgroups.cgroup_processes import pids
from ociruntime.runtime.cgroups.delegation import visible_directories
from ociruntime.runtime.cgroups.freezer import event
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout
from ociruntime.runtime.cgroups.oom_kills import oom_kills
from ociruntime.runtime.cgroups.shared_settings import Setting

ODD = ["", "x", "\xb2", "\u0663", "1.5", "--1", "9" * 5000, "../.."]


@pytest.mark.parametrize("word", ODD)
def test_whole(word: str) -> None:
    assert whole_number(word) is None


def test_whole_numbers() -> None:
    assert [whole_number(word) for word in ("0", "007", str((1 << 64) - 1))] == [
        0,
        7,
        (1 << 64) - 1,
    ]


@pytest.mark.parametrize("odd", ODD)
def test_files(tmp_path: Path, odd: str) -> None:
    place = str(tmp_path)

    def fill(name: str, content: str) -> None:
        (tmp_path / name).write_text(content)

    fill("one", odd)
    fill("keyed", f"a {odd}\nb 7\n")
    assert control_files.number(place, "one") == (-0 if odd == "--1" else 0)
    assert control_files.keyed(place, "keyed") == {"b": 7}
    floor = Setting(1, "memory", (("one", "5"),), "linux.resources.memory.limit", floor="one")
    control_files.check_floor(floor, place)
    fill("memory.events", f"oom_kill {odd}\n")
    assert event(place, "oom_kill", "memory.events") == 0
    assert oom_kills(place, 2) == 0
    fill("cgroup.procs", f"1\n{odd}\n0\n3\n")
    assert pids(place) == [1, 3]


@pytest.mark.parametrize("odd", ODD)
def test_statistics(tmp_path: Path, odd: str) -> None:
    place = str(tmp_path)
    word = odd.replace(" ", "")

    def found(version: Any, kind: str, name: str, content: str) -> dict[str, Any]:  # noqa: ANN401
        (tmp_path / name).write_text(content)
        result: dict[str, Any] = getattr(version, kind)(place)
        (tmp_path / name).unlink()
        return result

    usage_all = f"cpu user system\n0 1 2\n1 {word}\n"
    percpu = found(statistics_v1, "cpuacct", "cpuacct.usage_all", usage_all)["usage"]
    assert percpu["percpu_kernel"] == [2]
    percpu = found(statistics_v1, "cpuacct", "cpuacct.usage_percpu", f"1 {word} 2\n")["usage"]
    assert [count for count in percpu["percpu"] if count] == [1, 2]
    lines = f"8:{word} Read 1\n8:0 Read {word}\n8:0 Write 2\nTotal 3\n"
    name = "blkio.throttle.io_service_bytes_recursive"
    entries = found(statistics_v1, "blkio", name, lines)["ioServiceBytesRecursive"]
    assert [entry for entry in entries if entry["op"] == "Write"] == [
        {"major": 8, "op": "Write", "value": 2}
    ]
    io = f"8:{word} rbytes=1\n8:0 rbytes={word} wbytes=2\n"
    assert found(statistics_v2, "blkio", "io.stat", io) == {
        "ioServiceBytesRecursive": [{"major": 8, "op": "Write", "value": 2}]
    }
    psi = found(statistics_v2, "cpu", "cpu.pressure", f"some avg10=1.50 avg60=x{word} total=7\n")
    assert psi["psi"] == {"some": {"avg10": 1.5, "total": 7}}


def test_usage_of_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.current").write_bytes(b"\xff")
    (tmp_path / "pids.current").write_text("\xb2")
    (tmp_path / "io.stat").write_text("8:0 rbytes=\xb2 wbytes=3")
    monkeypatch.setattr(resource_usage, "_directories", lambda *_: [str(tmp_path)])
    found = resource_usage.usage("0" * 36, "app")
    assert (found["memory"], found["pids"], found["block_written"]) == (None, None, 3)


def test_names_of_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container's: a separator in one does not hide its traffic."""
    counters = " 5 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n"
    table = f"a\nb\n    lo:{counters}  x\x1clo:{counters}lo\x1c:{counters}"
    monkeypatch.setattr("os.stat", _Inode)
    monkeypatch.setattr(resource_usage, "read_file", lambda path: table.encode())
    assert resource_usage._network(1) == (10, 14)


class _Inode:
    """A status in which every path has another inode."""

    def __init__(self, path: str) -> None:
        self.st_ino = len(path)


def test_membership() -> None:
    """A name with a line separator makes no further line."""
    layout = Layout("v1", (Hierarchy(("cpu",), "", "/cg/cpu", 1),))
    for odd in "\v\x1c\u2028":
        assert visible_directories(layout, f"3:cpu:/a{odd}9:cpu:/b\n") == (
            ("cpu", f"/cg/cpu/a{odd}9:cpu:/b"),
        )
