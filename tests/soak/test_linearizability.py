"""The checker accepts possible histories, and rejects impossible ones."""

from __future__ import annotations

import random

import pytest

from tests.soak.history import (
    ABSENT,
    BUSY,
    CREATE,
    CREATED,
    DELETE,
    DIED,
    EXISTS,
    FORCE,
    HAS_STOPPED,
    IS_RUNNING,
    KILL,
    NOT_STOPPED,
    OK,
    RUNNING,
    START,
    STATE,
    STOPPED,
    TERM,
    Operation,
)
from tests.soak.linearizability import NOTHING, check, outcomes

Step = tuple[str, int, int, str, int] | tuple[str, int, int, str]


def history(*steps: Step) -> list[Operation]:
    """Return a history of (verb, began, ended, result, pid), each by a separate client."""
    return [Operation(client, *step) for client, step in enumerate(steps)]


POSSIBLE = {
    "a whole life": history(
        (STATE, 0, 1, ABSENT),
        (CREATE, 2, 3, OK, 7),
        (STATE, 4, 5, CREATED, 7),
        (START, 6, 7, OK),
        (STATE, 8, 9, RUNNING, 7),
        (START, 10, 11, IS_RUNNING),
        (DELETE, 12, 13, NOT_STOPPED),
        (KILL, 14, 15, OK),
        (STATE, 16, 17, RUNNING, 7),
        (STATE, 18, 19, STOPPED),
        (KILL, 20, 21, HAS_STOPPED),
        (DELETE, 22, 23, OK),
        (STATE, 24, 25, ABSENT),
    ),
    "either of two that overlap is first": history(
        (CREATE, 0, 10, OK, 7), (STATE, 1, 2, ABSENT), (STATE, 3, 4, CREATED, 7)
    ),
    "one of two creations wins": history((CREATE, 0, 10, OK, 7), (CREATE, 1, 9, EXISTS)),
    "a forced deletion kills first": history(
        (CREATE, 0, 1, OK, 7),
        (FORCE, 2, 9, OK),
        (STATE, 3, 4, CREATED, 7),
        (STATE, 5, 6, STOPPED),
        (STATE, 7, 8, ABSENT),
    ),
    "a forced deletion of nothing, or of what comes": history(
        (FORCE, 0, 9, OK), (CREATE, 1, 2, OK, 7), (STATE, 3, 4, CREATED, 7), (STATE, 10, 11, ABSENT)
    ),
    "a signal that ends only a waiting container": history(
        (CREATE, 0, 1, OK, 7), (TERM, 2, 3, OK), (STATE, 4, 5, STOPPED)
    ),
    "killed during its start": history(
        (CREATE, 0, 1, OK, 7), (START, 2, 6, DIED), (KILL, 3, 4, OK), (STATE, 7, 8, STOPPED)
    ),
    "in use by a command that fails": history(
        (CREATE, 0, 1, OK, 7), (CREATE, 2, 9, EXISTS), (DELETE, 3, 4, BUSY)
    ),
}

IMPOSSIBLE = {
    "created twice": history((CREATE, 0, 1, OK, 7), (CREATE, 2, 3, OK, 8)),
    "two creations win": history((CREATE, 0, 9, OK, 7), (CREATE, 1, 8, OK, 8)),
    "exists before it was created": history((CREATE, 0, 1, EXISTS), (CREATE, 2, 3, OK, 7)),
    "absent after it was created": history((CREATE, 0, 1, OK, 7), (STATE, 2, 3, ABSENT)),
    "seen, then absent, then seen": history(
        (CREATE, 0, 9, OK, 7),
        (STATE, 1, 2, CREATED, 7),
        (STATE, 3, 4, ABSENT),
        (STATE, 5, 6, CREATED, 7),
    ),
    "running without a start": history((CREATE, 0, 1, OK, 7), (STATE, 2, 3, RUNNING, 7)),
    "another's process": history((CREATE, 0, 1, OK, 7), (STATE, 2, 3, CREATED, 8)),
    "a stopped container with a process": history(
        (CREATE, 0, 1, OK, 7), (KILL, 2, 3, OK), (STATE, 4, 5, STOPPED, 7)
    ),
    "created after its start": history(
        (CREATE, 0, 1, OK, 7), (START, 2, 3, OK), (STATE, 4, 5, CREATED, 7)
    ),
    "started twice": history((CREATE, 0, 1, OK, 7), (START, 2, 9, OK), (START, 3, 8, OK)),
    "stopped without a reason": history((CREATE, 0, 1, OK, 7), (STATE, 2, 3, STOPPED)),
    "stopped by a signal that it ignores": history(
        (CREATE, 0, 1, OK, 7), (START, 2, 3, OK), (TERM, 4, 5, OK), (STATE, 6, 7, STOPPED)
    ),
    "risen from the dead": history(
        (CREATE, 0, 1, OK, 7),
        (KILL, 2, 3, OK),
        (STATE, 4, 5, STOPPED),
        (STATE, 6, 7, CREATED, 7),
    ),
    "deleted while it runs": history((CREATE, 0, 1, OK, 7), (START, 2, 3, OK), (DELETE, 4, 5, OK)),
    "deleted twice": history((CREATE, 0, 1, OK, 7), (DELETE, 2, 9, OK), (DELETE, 3, 8, OK)),
    "still there after a forced deletion": history(
        (CREATE, 0, 1, OK, 7), (FORCE, 2, 3, OK), (STATE, 4, 5, CREATED, 7)
    ),
    "killed before it exists": history((KILL, 0, 1, OK), (CREATE, 2, 3, OK, 7)),
    "died in a start that nothing disturbed": history((CREATE, 0, 1, OK, 7), (START, 2, 3, DIED)),
    "in use by nobody": history(
        (CREATE, 0, 1, OK, 7), (STATE, 2, 9, CREATED, 7), (DELETE, 3, 4, BUSY)
    ),
    "an error that nothing explains": history(
        (CREATE, 0, 1, OK, 7), (START, 2, 3, "internal error")
    ),
}


@pytest.mark.parametrize("operations", POSSIBLE.values(), ids=POSSIBLE)
def test_possible(operations: list[Operation]) -> None:
    assert check(operations) == ""


@pytest.mark.parametrize("operations", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible(operations: list[Operation]) -> None:
    assert check(operations) != ""


RESULTS = {
    CREATE: [OK, EXISTS],
    START: [OK, ABSENT, IS_RUNNING, HAS_STOPPED],
    STATE: [ABSENT, CREATED, RUNNING, STOPPED],
    KILL: [OK, ABSENT, HAS_STOPPED],
    TERM: [OK, ABSENT, HAS_STOPPED],
    DELETE: [OK, ABSENT, NOT_STOPPED],
    FORCE: [OK],
}


def simulated(seed: int, clients: int = 6, steps: int = 300) -> list[Operation]:
    """Return what clients of the model would see whose calls overlap randomly."""
    chance = random.Random(seed)
    container, now = NOTHING, 0
    free = [0] * clients
    found = []
    for number in range(steps):
        client = chance.randrange(clients)
        now = max(now, free[client]) + chance.randrange(1, 4)
        verb = chance.choice(list(RESULTS))
        pid = number + 100 if verb == CREATE else container.pid if container.alive else 0
        if container.doomed and chance.random() < 0.5:
            ((container, _),) = outcomes(container, Operation(0, START, 0, 0, DIED))
            pid = number + 100 if verb == CREATE else 0
        for result in RESULTS[verb]:
            shown = pid if verb in {CREATE, STATE} and result in {OK, CREATED, RUNNING} else 0
            one = Operation(client, verb, now - chance.randrange(3), now, result, shown)
            reached = list(outcomes(container, one))
            if reached and reached[0][1] == "half":
                container = reached[0][0]
                ((container, _),) = outcomes(container, Operation(0, START, 0, 0, DIED))
                reached = list(outcomes(container, one))
            if reached:
                container = reached[0][0]
                began = max(one.began, free[client] + 1)
                ended = now + chance.randrange(5)
                found.append(Operation(client, verb, min(began, now), ended, result, shown))
                free[client] = ended + 1
                break
    return found


@pytest.mark.parametrize("seed", range(20))
def test_simulated(seed: int) -> None:
    """A long history of the model itself is linearizable; with one wrong result it is not."""
    operations = simulated(seed)
    assert len(operations) > 150
    assert check(operations) == ""
    seen = [number for number, one in enumerate(operations) if one.verb == STATE and one.pid]
    for number in seen[:: max(len(seen) // 5, 1)]:
        one = operations[number]
        wrong = Operation(one.client, one.verb, one.began, one.ended, one.result, 99)
        assert check([*operations[:number], wrong, *operations[number + 1 :]]) != ""
