"""The background process: invisible to the session's tests, and it exits with the session."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import processes, project
from tests.v2box import background, machine
from tests.v2box.ahead import Ahead

pytestmark = [
    pytest.mark.v2box,
    pytest.mark.root,
    pytest.mark.usefixtures("box"),
    pytest.mark.timeout(3600),
]

BEGIN = f"""
import sys, time
sys.path.append({str(project.ROOT)!r})
from tests.support import processes
from tests.v2box.ahead import Ahead
"""
AT_EASE = f"""{BEGIN}
one = Ahead([])
one.outcome("tree")
print(one.place, processes.descendants())
one.end()
"""
BOOTING = f"""{BEGIN}
one = Ahead(["systemd"])
one.outcome("tree")
print(one.place, flush=True)
time.sleep(100)
"""


@pytest.fixture
def begin() -> Iterator[Callable[[list[str]], Ahead]]:
    """Start a background process, which exits with the test."""
    begun: list[Ahead] = []

    def make(names: list[str]) -> Ahead:
        begun.append(Ahead(names))
        return begun[-1]

    yield make
    for one in begun:
        one.end()


def attending(place: Path) -> bool:
    return bool(machine.debris(f"{background.__file__} {place}"))


def test_it_is_an_orphan() -> None:
    """A session does not adopt orphans yet when it starts."""
    done = subprocess.run([sys.executable, "-c", AT_EASE], capture_output=True, text=True)
    place, _, children = done.stdout.partition(" ")
    assert children == "set()\n", done.stderr
    assert not attending(Path(place))
    assert not Path(place).exists()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        signal.SIGKILL,
    ],
)
def test_it_ends_with_its_session(number: signal.Signals) -> None:
    """While it boots: its processes and mounts are removed as well."""
    words = [sys.executable, "-c", BOOTING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as session:
        assert session.stdout is not None
        place = Path(os.fsdecode(session.stdout.readline().strip()))
        assert processes.until(lambda: bool(machine.debris(f"--bind {place}/source")))
        session.send_signal(number)
    assert processes.until(lambda: not place.exists())
    assert processes.until(lambda: machine.debris(str(place)) == [])


def test_it_ends_while_it_waits_for_another_s_box(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, begin: Callable[[list[str]], Ahead]
) -> None:
    monkeypatch.setenv("OCIRUNTIME_BOX_DIR", str(tmp_path))
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        one = begin([])
        assert processes.until(lambda: bool(machine.debris("flock --timeout 1800 9")))
        one.end()
        assert not one.place.exists()
        assert not attending(one.place)


def test_what_went_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[list[str]], Ahead]
) -> None:
    monkeypatch.setenv("OCIRUNTIME_BOX_DIR", "/proc/self/nowhere")
    one = begin(["systemd"])
    with pytest.raises(AssertionError, match=r"ended before tree: (?s:.*)mkdir: cannot create"):
        one.outcome("tree")
    one.end()
    assert not one.place.exists()
