"""Every test here runs real containers as root and must not leave anything behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults import running, stepping
from tests.faults.scenarios import Stage
from tests.support.runtime import Runtime


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Apply the leak check to each test."""


@pytest.fixture(scope="session")
def stage(runtime: Runtime, base: Path, pytestconfig: pytest.Config) -> Stage:
    """A bundle and a separate state root; programs start from a snapshot."""
    if pytestconfig.getoption("--snapshot") == "own":
        subprocess.run([runtime.path, "snapshot", "make"], check=True, stdout=subprocess.DEVNULL)
    from tests.support.plugin import TAG  # pytest imports the plugin after this file

    place = base / "faults"
    place.mkdir()
    return running.make_stage(runtime.path, place, f"{TAG}step")


@pytest.fixture(scope="session")
def runner(stage: Stage, base: Path) -> running.ContainerRunner:
    """A runner of scenarios."""
    if reason := stepping.missing():
        pytest.skip(reason)
    return running.ContainerRunner(stage, stepping.build(base / "stepper"))
