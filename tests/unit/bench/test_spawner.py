"""The small program that starts and measures commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Failed, Spawner, build_spawner

SHELL = "/bin/sh"


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawner]:
    spawner = Spawner(build_spawner(tmp_path), tmp_path / "output")
    yield spawner
    spawner.close()


def test_costs(spawn: Spawner) -> None:
    cost = spawn(SHELL, "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; echo done")
    assert cost.status == 0
    assert cost.cpu > 0
    assert cost.wall > 0
    assert cost.faults > 0
    assert spawn.last_output() == "done\n"


def test_our_own_memory_is_not_in_the_peak(spawn: Spawner) -> None:
    """An interpreter as the parent would count 10 MiB and more."""
    assert 0 < spawn(SHELL, "-c", ":").memory < 8192


def test_costs_of_children_are_included(spawn: Spawner) -> None:
    alone = spawn(SHELL, "-c", ":")
    with_child = spawn(SHELL, "-c", f"{SHELL} -c 'echo in a child'; :")
    assert with_child.faults > alone.faults


def test_many_at_once_in_their_order(spawn: Spawner) -> None:
    costs = spawn.all([[SHELL, "-c", f"exit {number}"] for number in range(20)])
    assert [cost.status >> 8 for cost in costs] == list(range(20))


def test_a_failure_says_why(spawn: Spawner) -> None:
    with pytest.raises(Failed, match="no such thing"):
        spawn(SHELL, "-c", "echo no such thing >&2; exit 1")


def test_a_program_that_is_not_there(spawn: Spawner) -> None:
    with pytest.raises(Failed, match="the spawner exited with status"):
        spawn("/nowhere/program")
