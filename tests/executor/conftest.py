"""The executor in both builds: as it is shipped, and checking itself while it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ociruntime.runtime.executor.spawn import PROGRAM
from tests.support import executor, project, refusal


@pytest.fixture(scope="session")
def sanitized(base: Path) -> Path:
    """The executor with address and undefined-behaviour checks."""
    output = base / "sanitized" / "_executor"
    output.parent.mkdir()
    command = [sys.executable, "setup.py", "-q", "build_native", "--sanitize"]
    subprocess.run(
        [*command, "--output", output], cwd=project.ROOT, check=True, stdout=subprocess.PIPE
    )
    return output


@pytest.fixture(params=["release", "sanitized"])
def each_build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the test's plans carried out by one build after the other."""
    path = PROGRAM
    if request.param == "sanitized":
        path = str(request.getfixturevalue("sanitized"))
        # Looking for leaks would mean to trace the executor, which forbids that.
        monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    monkeypatch.setattr(executor, "program", path)


@pytest.fixture(params=["kernel", "old kernel"])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have them carried out with the calls of this kernel, and with those of Linux 5.1 only."""
    if request.param == "old kernel":
        monkeypatch.setattr(executor, "refused", (*refusal.CALLS, "statx"))
