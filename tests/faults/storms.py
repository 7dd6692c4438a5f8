"""Storms of signals sent to a foreground command, from a given moment to its exit."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults import judging, scenarios
from tests.faults.running import Result
from tests.faults.scenarios import Stage
from tests.faults.stepping import Outcome, watch
from tests.support.runtime import content

EXIT = 7
STORM_SECONDS = 4.0
DEADLY = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM")
HARMLESS = ("WINCH", "CONT", "URG", "CHLD", "PIPE")
DELAYS = (0.0, 0.005, 0.02, 0.08, 0.3)  # seconds
# It ends by itself, and at the first signal that it gets.
PROGRAM = f"""
trap 'exit {EXIT}' {" ".join(DEADLY)}
n=0
while [ $n -lt 20 ]; do n=$((n+1)); sleep 0.05 & wait $!; done
exit {EXIT}
"""


@dataclass(frozen=True)
class Storm:
    """Many signals of one kind for `run` or `exec`, beginning ``delay`` seconds after its start."""

    command: str
    signal: str
    delay: float

    def __str__(self) -> str:
        return f"{self.command}-{self.signal}-{self.delay}"


def storms() -> Iterator[Storm]:
    for command in ("run", "exec"):
        for name in (*DEADLY, *HARMLESS):
            for delay in DELAYS:
                yield Storm(command, name, delay)


def run(stage: Stage, storm: Storm) -> Result:
    """Run the command in the storm, and clean up."""
    program = ("sh", "-c", PROGRAM)
    stage.bundle.args(*(program if storm.command == "run" else ("sleep", "1000"))).save()
    before = judging.look(stage)
    try:
        if storm.command == "run":
            words = stage.command("run", "--bundle", str(stage.bundle.path), stage.id)
        else:
            scenarios.running(stage)
            words = stage.command("exec", stage.id, *program)
        outcome = _in_storm(words, storm)
        problems = _problems(outcome, storm)
        if storm.command == "run" and not died_early(outcome):
            problems += [f"left by itself: {line}" for line in judging.left(stage, before)]
        problems += judging.untrue(stage) + judging.cleaned(stage, before)
    except BaseException:
        judging.clear(stage, before)
        raise
    return Result(None, outcome.status, problems, outcome.err.strip())


def died_early(outcome: Outcome) -> bool:
    """Return whether a signal killed the command before it caught signals."""
    return outcome.status is not None and outcome.status < 0


def _in_storm(words: list[str], storm: Storm) -> Outcome:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        time.sleep(storm.delay)
        number = getattr(signal, f"SIG{storm.signal}")
        end = time.monotonic() + STORM_SECONDS
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(number)
        status = process.returncode if watch(process) else None
        return Outcome([], status, content(out), content(err))


def _problems(outcome: Outcome, storm: Storm) -> list[str]:
    if outcome.hung:
        return ["the command hangs"]
    number = int(getattr(signal, f"SIG{storm.signal}"))
    # Status -N: the signal came before the command caught or ignored it.
    if outcome.status in (EXIT, -number):
        return []
    if storm.signal in HARMLESS:
        return [f"status {outcome.status} instead of {EXIT}: {outcome.err.strip()}"]
    # The signal came before there was a program with a handler.
    if outcome.status == 128 + number:
        return []
    if outcome.status in (1, 130, 255) and outcome.err:
        return judging.unclear(outcome)
    return [f"status {outcome.status}: {outcome.err.strip()}"]
