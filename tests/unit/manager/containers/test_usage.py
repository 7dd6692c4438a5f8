"""What is read of a container's processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ociruntime.manager.containers import usage
from ociruntime.pods.store import pod_cgroup
from tests.support import processes


def command_of(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the command that is reported for a process with these arguments."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        # The kernel closes Popen's pipe a moment before it sets the arguments.
        assert processes.until(lambda: bool(Path(f"/proc/{process.pid}/cmdline").read_bytes()))
        monkeypatch.setattr(pod_cgroup, "processes", lambda _directories: [process.pid])
        (record,) = usage.processes("0" * 36, "app")
        process.communicate(b"\n")
    return str(record["command"])


def test_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_of(["/bin/sh", "-c", "read x", "a b", ""], monkeypatch) == (
        "/bin/sh -c read x a b"
    )


def test_a_command_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can make it gigabytes long, by PR_SET_MM_MAP."""
    command = command_of(["/bin/sh", "-c", "read x", *["" for _ in range(100_000)]], monkeypatch)
    assert command == "/bin/sh -c read x"
    command = command_of(["/bin/sh", "-c", "read x", "y" * 100_000], monkeypatch)
    assert command == ("/bin/sh -c read x " + "y" * 4096)[:4096]
