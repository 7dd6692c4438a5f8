"""A client of a contention test: it runs random commands on an id and records their history.

``python -m tests.soak.contender CLIENT KIND PROGRAM ROOT BUNDLE ID SECONDS SEED DIRECTORY``
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.soak import history
from tests.soak.history import (
    ABSENT,
    BUSY,
    CREATE,
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
    START,
    STATE,
    TERM,
    Operation,
)
from tests.soak.subjects import OWN

SHARES = {CREATE: 8, START: 6, STATE: 8, KILL: 3, TERM: 2, DELETE: 3, FORCE: 2}
LONGEST_SECONDS = 15.0
HANGS = "hangs"
# What a message means.  A message that is not here is a result of its own, which no state explains.
MEANINGS = {
    "does not exist": ABSENT,
    "already exists": EXISTS,
    "in use": BUSY,
    "being created": BUSY,
    "not stopped": NOT_STOPPED,
    "already running": IS_RUNNING,
    "has stopped": HAS_STOPPED,
    "not running": HAS_STOPPED,
    "is already dead": DIED,
    "before it executed": DIED,
}


@dataclass(frozen=True)
class Client:
    """A client's number, the runtime it calls, and its directory."""

    number: int
    kind: str
    command: tuple[str, ...]  # the program with its global options
    bundle: str
    id: str
    place: Path

    @property
    def pid_file(self) -> Path:
        return self.place / f"pid{self.number}"

    @property
    def output(self) -> Path:
        return self.place / f"output{self.number}"

    def words(self, verb: str) -> list[str]:
        """Return the command line for an operation."""
        arguments = {
            CREATE: ["create", "--bundle", self.bundle, "--pid-file", str(self.pid_file), self.id],
            KILL: ["kill", self.id, "KILL"],
            TERM: ["kill", self.id, "TERM"],
            FORCE: ["delete", "--force", self.id],
        }
        return [*self.command, *arguments.get(verb, [verb, self.id])]

    def run(self, verb: str) -> Operation:
        """Run a command and return it with its result."""
        began = time.monotonic_ns()
        status = _run(self.words(verb), self.output)
        ended = time.monotonic_ns()
        output = self.output.read_text(errors="replace")
        result, pid = self._result(verb, status, output)
        return Operation(self.number, verb, began, ended, result, pid)

    def _result(self, verb: str, status: int | None, output: str) -> tuple[str, int]:
        if status is None:
            return HANGS, 0
        if status != 0:
            return meaning(output, self.kind), 0
        if verb == CREATE:
            return OK, int(self.pid_file.read_text())
        if verb != STATE:
            return OK, 0
        document = json.loads(output)
        return document["status"], document["pid"]


def meaning(message: str, kind: str) -> str:
    """Return the result that an error message stands for; FAILED for another runtime."""
    if kind != OWN:
        return FAILED
    found = [result for words, result in MEANINGS.items() if words in message]
    return found[0] if found else " ".join(message.split())


def _run(words: list[str], output: Path) -> int | None:
    """Run a command with its output in a file; return its exit status, None if it hangs.

    The output is a new file each time, because a container keeps its own open.
    """
    output.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        status: int | None = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        status = None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return status


def _time_out(number: int, frame: object) -> None:
    raise TimeoutError


def contend(client: Client, seconds: float, seed: int) -> list[Operation]:
    """Run random commands for the given time; return all of them."""
    signal.signal(signal.SIGALRM, _time_out)
    chance = random.Random(seed)
    verbs, shares = list(SHARES), list(SHARES.values())
    deadline = time.monotonic() + seconds
    found = []
    while time.monotonic() < deadline:
        found.append(client.run(chance.choices(verbs, shares)[0]))
    return found


def main(arguments: list[str]) -> None:
    number, kind, program, root, bundle, name, seconds, seed, place = arguments
    command = (program, "--root", root)
    client = Client(int(number), kind, command, bundle, name, Path(place))
    found = contend(client, float(seconds), int(seed))
    history.write(Path(place) / f"history{number}", found)


if __name__ == "__main__":
    main(sys.argv[1:])
