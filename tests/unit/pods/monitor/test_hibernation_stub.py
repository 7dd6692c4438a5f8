"""The hibernation stub, which waits instead of the monitor."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.pods.monitor.hibernation import PROGRAM
from tests.support import processes, project

TELL = """
import json, os, signal, sys
print(json.dumps([os.getpid(), sys.argv, os.environ.get("WORD"), sorted(signal.sigpending())]))
"""


class Sleeper:
    """A stub that ``event`` wakes; it then prints its pid, arguments, WORD and pending signals."""

    def __init__(self, file: Path) -> None:
        self.reader, self.event = os.pipe()
        self.watched = select.epoll()
        self.watched.register(self.reader, select.EPOLLIN)
        os.set_inheritable(self.watched.fileno(), True)
        words = ["a title", str(self.watched.fileno()), str(file), sys.executable]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.process = subprocess.Popen(
            [*words, "python", "-c", TELL, "one", "two three", ""],
            executable=PROGRAM,
            env={"WORD": "of the environment"},
            stdout=subprocess.PIPE,
            pass_fds=(self.watched.fileno(),),
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def waits(self) -> bool:
        """Return whether it waits, under its own name."""
        place = Path(f"/proc/{self.process.pid}")
        title = (place / "cmdline").read_text() == "a title\0"
        return title and (place / "comm").read_text() == "ocipod-monitor\n"

    def said(self) -> list[object]:
        out, _ = self.process.communicate(timeout=20)
        value: list[object] = json.loads(out)
        return value

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.watched.close()
        os.close(self.reader)
        os.close(self.event)


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    one = Sleeper(Path(__file__))
    assert processes.until(one.waits)
    yield one
    one.close()


def test_an_event(sleeper: Sleeper) -> None:
    os.write(sleeper.event, b"x")
    words = ["-c", "one", "two three"]
    assert sleeper.said() == [sleeper.process.pid, words, "of the environment", []]
    assert os.read(sleeper.reader, 2) == b"x", "it has taken it"


def test_signals_stay(sleeper: Sleeper) -> None:
    """Including one that would kill it, and one that is ignored by default."""
    os.kill(sleeper.process.pid, signal.SIGSTOP)
    os.kill(sleeper.process.pid, signal.SIGTERM)
    os.kill(sleeper.process.pid, signal.SIGCHLD)
    os.kill(sleeper.process.pid, signal.SIGCONT)
    pending = sleeper.said()[3]
    assert isinstance(pending, list)
    assert {signal.SIGTERM, signal.SIGCHLD} <= set(pending)


def test_it_waits_for_what_is_being_replaced(tmp_path: Path) -> None:
    file = tmp_path / "main.py"
    one = Sleeper(file)
    try:
        assert processes.until(one.waits)
        os.write(one.event, b"x")
        assert not processes.until(lambda: not one.waits(), 0.3)
        file.write_text("")
        assert one.said()[0] == one.process.pid
    finally:
        one.close()


@pytest.mark.parametrize("words", [[], ["1"], ["x", "f", "p", "0", ""], ["1", "f", "p", "0", "a"]])
def test_wrong_use(words: list[str]) -> None:
    assert subprocess.run([PROGRAM, *words]).returncode == 2


def test_the_interpreter_tries_again(tmp_path: Path) -> None:
    """It wakes while the package is being replaced."""
    package = project.PACKAGE
    packages = ("", "startup/", "pods/", "pods/cli/")
    files = [f"{one}__init__.py" for one in packages]
    for name in (*files, "startup/archive.py", "pods/cli/__main__.py"):
        copy = tmp_path / "ociruntime" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((package / name).read_bytes())
    main = tmp_path / "ociruntime" / "pods" / "cli" / "__main__.py"
    command = [sys.executable, "-I", "-S", "-B", str(main), "monitor", "uuid"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 254
    assert "incomplete installation" in done.stderr
    process = subprocess.Popen([*command, "--resume-fd", "9"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    main.with_name("main.py").write_text("def main(argv):\n    return len(argv)\n")
    assert process.wait(20) == 4
