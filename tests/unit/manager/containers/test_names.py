"""Names, references and restart delays."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import BadRequest, NotFound
from ociruntime.manager.containers import names
from ociruntime.manager.containers.record import Last, Record
from ociruntime.manager.containers.restart_policy import next_delay, should_restart

ONE, OTHER = "ab" * 32, "ac" * 32
NAMES = {"web": ONE, "ac": ONE}


@pytest.mark.parametrize(
    ("ref", "found"),
    [("web", ONE), (ONE, ONE), ("ab", ONE), ("aca", OTHER), (OTHER, OTHER), ("ac", ONE)],
)
def test_references(ref: str, found: str) -> None:
    """A name wins over the beginning of an id."""
    assert names.resolve(ref, [ONE, OTHER], NAMES) == found


@pytest.mark.parametrize(
    ("ref", "why"), [("a", "2 containers"), ("", "no container"), ("we", "no container")]
)
def test_references_that_mean_nothing(ref: str, why: str) -> None:
    with pytest.raises(NotFound, match=why):
        names.resolve(ref, [ONE, OTHER], NAMES)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "0", "x" * 128])
def test_names(name: str) -> None:
    assert names.check_name(name, "name") == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "a/b", "a b", "ä", "x" * 129, ONE, None, 7])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(BadRequest, match=r"^name: "):
        names.check_name(name, "name")


def test_new_names_are_new() -> None:
    taken: set[str] = set()
    for _ in range(200):
        name = names.new_name(taken)
        assert name not in taken
        taken.add(names.check_name(name, "name"))
    assert names.is_id(names.new_id())


def test_delays_double_up_to_a_minute() -> None:
    delays = [0.0]
    for _ in range(12):
        delays.append(next_delay(delays[-1], 0.5))
    assert delays[1:5] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == 60.0
    assert next_delay(60.0, 10.0) == 0.1


@pytest.mark.parametrize(
    ("policy", "wanted", "code", "count", "restarts", "at_reload"),
    [
        ("no", "running", 1, 0, False, False),
        ("on-failure", "running", 0, 0, False, False),
        ("on-failure", "running", 1, 0, True, True),
        ("on-failure", "running", None, 0, True, True),
        ("on-failure", "running", 1, 3, False, False),
        ("on-failure", "stopped", 143, 0, False, False),
        ("always", "running", 0, 99, True, True),
        ("always", "stopped", 143, 0, False, True),
        ("unless-stopped", "running", 0, 99, True, True),
        ("unless-stopped", "stopped", 143, 0, False, False),
    ],
)
def test_who_is_started_again(
    policy: str, wanted: str, code: int | None, count: int, restarts: bool, at_reload: bool
) -> None:
    spec = {"restart_policy": {"name": policy, "maximum": 3 if policy == "on-failure" else 0}}
    record = Record(ONE, "web", "", "", [], "", "", spec, wanted, ever_started=True)
    record.restart_count = count
    record.last = Last("then", "later", code)
    assert should_restart(record) == restarts
    assert should_restart(record, at_reload=True) == at_reload
    record.ever_started = False
    assert not should_restart(record, at_reload=True)
