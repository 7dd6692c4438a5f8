"""The session's side of the background process, which starts before the first test."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.v2box import background


class Ahead:
    """The test VM's runs in parallel to this session."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.place = Path(tempfile.mkdtemp(prefix="ociruntime-v2box-", dir="/var/tmp"))
        self.told: list[str] = []
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, background.__file__, str(self.place), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._process.wait()  # what goes on is its orphan

    def outcome(self, word: str) -> dict[str, Any]:
        """Wait for the result of a step and return it; fail if there will be none."""
        assert self._process.stdout is not None
        while word not in self.told:
            line = self._process.stdout.readline()
            assert line, f"the test VM's background process ended before {word}: {self._said()}"
            self.told.append(line.strip())
        found: dict[str, Any] = json.loads((self.place / f"{word}.json").read_text())
        return found

    def report(self, name: str) -> Path:
        """Return the path of the run's JUnit report."""
        return self.place / "reports" / f"{name}.xml"

    def end(self) -> None:
        """Stop it in any state and wait until it has exited; idempotent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.stdout.close()
        self._log.close()

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]
