"""The parts of a soak: how much of each is to be done, and one piece of it at a time."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from tests.faults.stepping import build as build_stepper
from tests.faults.stepping import missing
from tests.soak import alive, contention, lives, pid_reuse
from tests.soak.journal import Record
from tests.soak.subjects import Subject

ROUNDS_AT_ONCE = 16  # of pid reuse, in a record
READINGS = 40  # of the kernel's counters, in all lives
FEWEST_LIVES = 25  # between two readings
PEERS_LIVES, PEERS_REUSES = 1000, 200  # the most for other runtimes, which are only compared


@dataclass(frozen=True)
class Counts:
    """The amount of work of each part."""

    lives: int = 200
    alive: int = 50
    creates: int = 30
    rounds: int = 3
    clients: int = 8
    seconds: int = 5
    reuses: int = 64


FULL = Counts(20_000, 500, 100, 10, 8, 60, 1000)


class Part(ABC):
    """A part for one runtime; ``total`` and the result of ``done`` are in the same unit."""

    name = ""
    unit = ""

    def __init__(self, subject: Subject, counts: Counts) -> None:
        self.subject = subject
        self.counts = counts
        self.total = 0

    @abstractmethod
    def done(self, records: list[Record]) -> int:
        """Return the amount that the records of earlier calls cover."""

    @abstractmethod
    def step(self, done: int) -> Record:
        """Do the next piece; return its record."""

    def close(self) -> None:
        """Release what the part holds."""
        return


class Contention(Part):
    name, unit = "contention", "seconds"

    def __init__(self, subject: Subject, counts: Counts) -> None:
        super().__init__(subject, counts)
        self.total = counts.seconds

    def done(self, records: list[Record]) -> int:
        return max((one["seconds"] for one in records), default=0)

    def step(self, done: int) -> Record:
        """Compete for the whole time: a longer history is harder to explain than two short ones."""
        fight = contention.fight(self.subject, self.counts.clients, self.total, self.total)
        return {"seconds": self.total, "clients": self.counts.clients, **fight.record()}


class Alive(Part):
    name, unit = "alive", "containers"

    def __init__(self, subject: Subject, counts: Counts) -> None:
        super().__init__(subject, counts)
        self.total = counts.alive

    def done(self, records: list[Record]) -> int:
        return max((one["count"] for one in records), default=0)

    def step(self, done: int) -> Record:
        return alive.alive(self.subject, self.total)


class Burst(Part):
    name, unit = "burst", "rounds"

    def __init__(self, subject: Subject, counts: Counts) -> None:
        super().__init__(subject, counts)
        self.total = counts.rounds

    def done(self, records: list[Record]) -> int:
        return sum(one["count"] == self.counts.creates for one in records)

    def step(self, done: int) -> Record:
        return alive.burst(self.subject, self.counts.creates)


class Reuse(Part):
    """In half of ociruntime's rounds, the init is exchanged while a command runs, if possible."""

    name, unit = "pid-reuse", "reuses"

    def __init__(self, subject: Subject, counts: Counts) -> None:
        super().__init__(subject, counts)
        self.total = counts.reuses if subject.own else min(counts.reuses, PEERS_REUSES)
        self._work = subject.bundle.parent / "reuse"
        self._work.mkdir()
        self._strangers = pid_reuse.Strangers(self._work)
        self._stepped: pid_reuse.Stepped | None = None
        if subject.own and not missing():
            stepper = build_stepper(self._work / "stepper")
            self._stepped = pid_reuse.Stepped(subject, self._strangers, stepper, self._work)
        self._calls: dict[pid_reuse.During, int] = {}

    def done(self, records: list[Record]) -> int:
        return sum(one["count"] for one in records)

    def step(self, done: int) -> Record:
        stepped = self._stepped if done // ROUNDS_AT_ONCE % 2 else None
        found: list[list[str] | None] = []
        wanted = min(ROUNDS_AT_ONCE, self.total - done)
        for number in range(done, done + wanted):
            found.append(self._during(stepped, number) if stepped else self._before(number))
        made = [one for one in found if one is not None]
        return {
            "count": len(made),
            "during": len(made) if stepped else 0,
            "impossible": len(found) - len(made),
            "problems": [line for one in made for line in one],
        }

    def _before(self, number: int) -> list[str] | None:
        case = pid_reuse.CASES[number % len(pid_reuse.CASES)]
        return pid_reuse.one_round(self.subject, self._strangers, case)

    def _during(self, stepped: pid_reuse.Stepped, number: int) -> list[str] | None:
        """Take the commands in turn, each at another of its calls, evenly spread over all."""
        kinds = pid_reuse.DURING
        during = kinds[number % len(kinds)]
        if during not in self._calls:
            self._calls[during] = stepped.calls(during)
        # The golden ratio's multiples are spread evenly, however many there are.
        share = number // len(kinds) * 0.6180339887 % 1
        return stepped.one_round(during, 1 + int(share * self._calls[during]))

    def close(self) -> None:
        self._strangers.close()


class Lives(Part):
    name, unit = "lives", "lives"

    def __init__(self, subject: Subject, counts: Counts) -> None:
        super().__init__(subject, counts)
        self.total = counts.lives if subject.own else min(counts.lives, PEERS_LIVES)
        self._session = f"{time.time():.0f}"
        self._warm = False

    def done(self, records: list[Record]) -> int:
        return sum(one["count"] for one in records)

    def step(self, done: int) -> Record:
        if not self._warm:  # what the first lives make for all others is no growth
            self._warm = True
            lives.batch(self.subject, FEWEST_LIVES)
        size = min(max(self.total // READINGS, FEWEST_LIVES), self.total - done)
        return {"session": self._session, **lives.batch(self.subject, size)}


PARTS: tuple[type[Part], ...] = (Contention, Reuse, Alive, Burst, Lives)
