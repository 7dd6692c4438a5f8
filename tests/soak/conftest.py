"""Apply the leak check to every test here that runs containers, as in tests/faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import build_spawner
from tests.faults import stepping
from tests.soak import pid_reuse, subjects
from tests.soak.subjects import Subject
from tests.support.runtime import Runtime


@pytest.fixture(scope="session")
def subject(runtime: Runtime, base: Path) -> Iterator[Subject]:
    """The runtime under test, with a separate state root."""
    from tests.support.plugin import TAG  # pytest imports the plugin after this file

    place = base / "soak"
    spawner = build_spawner(base)
    made = subjects.make(runtime.path, place, spawner, f"{TAG}soak")
    yield made
    made.spawn.close()


@pytest.fixture(scope="session")
def strangers(base: Path, isolated: None) -> Iterator[pid_reuse.Strangers]:
    """A program that takes over pids."""
    place = base / "strangers"
    place.mkdir()
    made = pid_reuse.Strangers(place)
    yield made
    made.close()


@pytest.fixture(scope="session")
def stepped(subject: Subject, strangers: pid_reuse.Strangers, base: Path) -> pid_reuse.Stepped:
    """The stepper, for reuses while a command runs."""
    if reason := stepping.missing():
        pytest.skip(reason)
    place = base / "stepped"
    place.mkdir()
    return pid_reuse.Stepped(subject, strangers, stepping.build(place / "stepper"), place)
