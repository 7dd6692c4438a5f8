"""Start, wait for and stop a daemon of a test session."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support import processes

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Daemon:
    """Runs until ``stop``; what it says goes to ``log``."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, ready: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until it serves; AssertionError with the end of its log if it does not."""
        try:
            served = processes.until(lambda: self._ended() or ready(), seconds)
        except BaseException:
            self.stop()
            raise
        if not served or self._ended():
            self.stop()
            raise AssertionError(f"{self._process.args!r} does not serve: {self.words()}")

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL: it cannot put anything in order."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not help."""
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
