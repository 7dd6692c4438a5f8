"""Values read from a container's processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ociruntime.manager.containers import resource_usage
from ociruntime.pods.store import pod_cgroup
from tests.support import processes


def command_of(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the command shown for a process with these arguments."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        # The kernel closes Popen's pipe a moment before it sets the arguments.
        assert processes.until(lambda: bool(Path(f"/proc/{process.pid}/cmdline").read_bytes()))
        monkeypatch.setattr(pod_cgroup, "processes", lambda _directories: [process.pid])
        (record,) = resource_usage.processes("0" * 36, "app")
        process.communicate(b"\n")
    return str(record["command"])


def test_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_of(["/bin/sh", "-c", "read x", "a b", ""], monkeypatch) == (
        "/bin/sh -c read x a b"
    )


def test_a_command_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can make it gigabytes long with PR_SET_MM_MAP."""
    command = command_of(["/bin/sh", "-c", "read x", *["" for _ in range(100_000)]], monkeypatch)
    assert command == "/bin/sh -c read x"
    command = command_of(["/bin/sh", "-c", "read x", "y" * 100_000], monkeypatch)
    assert command == ("/bin/sh -c read x " + "y" * 4096)[:4096]


@pytest.mark.parametrize(
    ("name", "table", "counts"),
    [
        ("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=1 wbytes=2", (11, 22)),
        (
            "blkio.throttle.io_service_bytes",
            "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\nTotal 11",
            (5, 6),
        ),
        ("io.stat", "", (0, 0)),
        ("io.stat", "8:0 rbytes=x wbytes", (0, 0)),
        ("pids.max", "max", (None, None)),
    ],
)
def test_traffic_with_block_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, table: str, counts: tuple[int | None, int | None]
) -> None:
    monkeypatch.setattr(resource_usage, "_files", lambda *_: {name: table})
    found = resource_usage.usage("0" * 36, "app")
    assert (found["block_read"], found["block_written"]) == counts
    assert (found["network_received"], found["network_sent"]) == (None, None)
