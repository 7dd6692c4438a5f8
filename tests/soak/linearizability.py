"""Decide whether a history of commands on one id is linearizable (pure functions).

It is, if each command can be given one moment between its beginning and its end, so that the
commands, executed one after another at these moments, would have had the results that the clients
saw (Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects", 1990).

The sequential model is ``outcomes``.  Two things take more than one moment: a process that was
killed dies at any later moment (``Container.doomed``), and a deletion of a running or created
container first kills it and then removes it.

The search goes through the history once, in the order of time, with all states in which the
container may be (Lowe, "Testing for linearizability", 2017, calls this just-in-time
linearization).  A command that never has an effect is taken at once in a state that it fits: that
rules nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.soak.history import (
    ABSENT,
    BUSY,
    CREATE,
    CREATED,
    DELETE,
    DIED,
    EXISTS,
    FAILED,
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

DONE, HALF = "done", "half"
CHANGED = {OK, DIED}  # what an operation with an effect can result in
CHANGING = {CREATE, DELETE, FORCE}  # what makes other commands answer BUSY


@dataclass(frozen=True)
class Container:
    """The container with the id at one moment; ``doomed``: SIGKILL was sent to its init."""

    status: str
    pid: int = 0
    doomed: bool = False

    @property
    def alive(self) -> bool:
        return self.status in {CREATED, RUNNING}


NOTHING = Container(ABSENT)


def outcomes(container: Container, one: Operation) -> Iterator[tuple[Container, str]]:
    """Yield pairs of the next state and DONE, or HALF if a part of the operation remains."""
    if one.result == OK:
        yield from _successes(container, one)
    elif one.verb == STATE and one.result in {CREATED, RUNNING, STOPPED}:
        pid = container.pid if container.alive else 0
        if (container.status, pid) == (one.result, one.pid):
            yield container, DONE
    elif one.result == DIED:
        if container.doomed or container.status == STOPPED:
            yield replace(container, status=STOPPED), DONE
    elif _is_refused(container, one):
        yield container, DONE


def _successes(container: Container, one: Operation) -> Iterator[tuple[Container, str]]:
    if one.verb == CREATE and container == NOTHING:
        yield Container(CREATED, one.pid), DONE
    elif one.verb == START and container.status == CREATED:
        yield replace(container, status=RUNNING), DONE
    elif one.verb == KILL and container.alive:
        yield replace(container, doomed=True), DONE
    elif one.verb == TERM and container.alive:
        # It ends a container that waits for `start`; a namespace's init without handler ignores it.
        yield replace(container, doomed=container.doomed or container.status == CREATED), DONE
    elif one.verb in {DELETE, FORCE}:
        if container.status == STOPPED or (one.verb == FORCE and container == NOTHING):
            yield NOTHING, DONE
        elif container.status == CREATED or (one.verb == FORCE and container.alive):
            yield replace(container, doomed=True), HALF


def _is_refused(container: Container, one: Operation) -> bool:
    """Return whether the state explains the error, which has no effect."""
    if one.result in {BUSY, FAILED}:
        return True
    if one.result == ABSENT:
        return container == NOTHING
    if one.result == EXISTS:
        return one.verb == CREATE and container != NOTHING
    if one.result == IS_RUNNING:
        return container.status == RUNNING
    if one.result == NOT_STOPPED:
        return one.verb == DELETE and container.status == RUNNING
    return one.result == HAS_STOPPED and container.status == STOPPED


@dataclass(frozen=True)
class _Possibility:
    """A state, and how much of the pending operations has led to it."""

    container: Container
    taken: frozenset[tuple[int, str]]


def check(history: Sequence[Operation]) -> str:
    """Return "" if the history is linearizable, else a description of where it stops being so."""
    if lonely := next(_busy_without_reason(history), None):
        return f"{lonely}: no other command was creating or deleting the container"
    possible = {_Possibility(NOTHING, frozenset())}
    pending: dict[int, Operation] = {}
    for at, number, ends in _events(history):
        if not ends:
            pending[number] = history[number]
            continue
        before = possible
        reached = _closure(possible, pending)
        possible = {
            replace(one, taken=one.taken - {(number, DONE)})
            for one in reached
            if (number, DONE) in one.taken
        }
        if not possible:
            return _describe(history[number], before, pending.values(), at)
        del pending[number]
    return ""


def _events(history: Sequence[Operation]) -> list[tuple[int, int, bool]]:
    """Return (time, index, whether it ends); at the same time, what begins comes first."""
    begins = [(one.began, False, number) for number, one in enumerate(history)]
    ends = [(one.ended, True, number) for number, one in enumerate(history)]
    return [(at, number, end) for at, end, number in sorted(begins + ends)]


def _closure(possible: set[_Possibility], pending: dict[int, Operation]) -> set[_Possibility]:
    """Return what can be reached by pending operations, and by deaths, in any order."""
    found: set[_Possibility] = set()
    open_ones = [_with_effectless(one, pending) for one in possible]
    while open_ones:
        one = open_ones.pop()
        if one not in found:
            found.add(one)
            open_ones += [_with_effectless(each, pending) for each in _next(one, pending)]
    return found


def _next(one: _Possibility, pending: dict[int, Operation]) -> Iterator[_Possibility]:
    if one.container.doomed and one.container.alive:
        yield replace(one, container=replace(one.container, status=STOPPED))
    for number, operation in pending.items():
        if (number, DONE) in one.taken:
            continue
        half = (number, HALF)
        for container, stage in outcomes(one.container, operation):
            if stage == HALF and half in one.taken:
                continue
            yield _Possibility(container, one.taken - {half} | {(number, stage)})


def _with_effectless(one: _Possibility, pending: dict[int, Operation]) -> _Possibility:
    """Take all pending operations that fit the state and would change no other either."""
    fitting = {
        (number, DONE)
        for number, operation in pending.items()
        if operation.result not in CHANGED
        and (one.container, DONE) in outcomes(one.container, operation)
    }
    return replace(one, taken=one.taken | fitting)


def _busy_without_reason(history: Sequence[Operation]) -> Iterator[Operation]:
    changing = [one for one in history if one.verb in CHANGING and one.result != BUSY]
    for one in history:
        if one.result == BUSY and not any(
            other.began <= one.ended and one.began <= other.ended for other in changing
        ):
            yield one


def _describe(
    one: Operation, before: Iterable[_Possibility], pending: Iterable[Operation], at: int
) -> str:
    states = sorted({str(each.container) for each in before})
    others = [str(each) for each in pending if each is not one]
    return f"{one}, at {at}; before: {', '.join(states)}; at the same time: {'; '.join(others)}"
