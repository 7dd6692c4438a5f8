"""A threaded cgroup of v2, which a container with a writable cgroup can make below its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.runtime.cgroups.cgroup_processes import kill_each, processes
from ociruntime.runtime.lifecycle.container_processes import signal_listed
from tests.support import cgroupfs
from tests.support.peers import judge_by
from tests.support.plugin import TAG

pytestmark = judge_by("ociruntime")

TWO_THREADS = """
import threading, time
thread = threading.Thread(target=time.sleep, args=(1000,))
thread.start()
print(thread.native_id, flush=True)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A cgroup with a threaded child."""
    if "" not in cgroupfs.hierarchies():
        pytest.skip("cgroup v2 is not mounted")
    directory = cgroupfs.hierarchies()[""] / f"{TAG}-threaded"
    child = directory / "child"
    child.mkdir(parents=True)
    (child / "cgroup.type").write_text("threaded")
    yield directory
    for each in (child, directory):
        each.rmdir()


@pytest.fixture
def process(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose second thread is in the threaded cgroup."""
    command = [sys.executable, "-c", TWO_THREADS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout is not None
            thread = one.stdout.readline().strip()
            (place / "cgroup.procs").write_text(str(one.pid))
            (place / "child" / "cgroup.threads").write_text(thread)
            yield one
        finally:
            one.kill()


def test_processes(place: Path, process: subprocess.Popen[str]) -> None:
    assert processes([str(place)]) == [process.pid]
    assert processes([str(place / "child")]) == [process.pid]


@pytest.mark.parametrize("below", ["", "child"])
def test_kill(place: Path, process: subprocess.Popen[str], below: str) -> None:
    kill_each([str(place / below)])
    assert process.wait(5) == -signal.SIGKILL


def test_signal(place: Path, process: subprocess.Popen[str]) -> None:
    signal_listed(lambda: processes([str(place)]), signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM
