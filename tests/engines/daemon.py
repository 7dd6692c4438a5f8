"""Start a daemon for a test session, wait until it is ready, and stop it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support import processes

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Daemon:
    """A daemon that runs until ``stop``; its output goes to ``log``."""

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
        """Wait until the daemon is ready.

        Raises AssertionError with the end of its log if it fails.
        """
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
        """Return the end of the daemon's log."""
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """Send SIGKILL: the daemon cannot clean up."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the daemon does not exit."""
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
