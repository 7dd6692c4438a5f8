#!/usr/bin/env python3
"""How long a pod takes to its first word, and what an idle one holds of memory, beside others.

    sudo bench/pods.py                       ocipod, podman and containerd, 20 rounds
    sudo bench/pods.py --rounds 50 --markdown
    sudo bench/pods.py --runtime .venv/bin/ociruntime --runtime /usr/sbin/runc

Time is that from the start of ``ocipod run`` to the first line of the app's output on its
standard output, beside ``podman run``, and beside ``podman pod create`` followed by ``podman run``
in that pod.  All have the same image of busybox in their store and no network; the rounds take
turns in who begins.  Memory is the sum of PSS (/proc/PID/smaps_rollup) of the processes that a
pod without an app keeps: monitor, keeper and init of ocipod, conmon and catatonit of podman, the
shim of containerd with a sleeping program in the place of CRI's pause.  The daemon of containerd
is not counted.  It is taken twice: as soon as the pods are there, and when their processes have
settled down; ocipod's monitor sleeps without its interpreter after five quiet seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lifecycle import REPOSITORY, as_markdown, as_text, machine, workplace
from pod_engines import MARK, Engine, engines, installed

from tests.engines.command import await_end
from tests.support import processes

FIRST_LINE = "first line"
END = "end"


@dataclass
class Times:
    """Milliseconds of one engine, round by round."""

    first_line: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time and weigh pods.")
    parser.add_argument("--runtime", action="append", type=Path, metavar="PATH",
                        help="below ocipod; may be repeated (default: ociruntime)")  # fmt: skip
    parser.add_argument("--peer-runtime", metavar="PATH", default="",
                        help="below podman and containerd (default: runc)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    parser.add_argument("--warmup", type=int, default=2, metavar="N", help="rounds not counted")
    parser.add_argument("--pods", type=int, default=4, metavar="N", help="idle ones to weigh")
    parser.add_argument("--markdown", action="store_true", help="print tables for a README")
    return parser.parse_args()


def timed(command: list[str], env: dict[str, str], output: Path) -> tuple[float, float]:
    """Milliseconds to the line MARK on standard output, and to the end.

    A command that fails ends the program with what it said.  The first number is 0 if it never
    says that line.
    """
    reading, writing = os.pipe()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(output), flags, 0o600),
    ]
    began = time.perf_counter_ns()
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    os.close(writing)
    text, said = b"", began
    while said == began and (part := os.read(reading, 65536)):
        text += part
        if f"{MARK}\n".encode() in text:
            said = time.perf_counter_ns()
    await_end(pid)
    ended = time.perf_counter_ns()
    _, status = os.waitpid(pid, 0)
    os.close(reading)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}\n{output.read_text()}")
    return (said - began) / 1e6, (ended - began) / 1e6


def life(engine: Engine, output: Path) -> tuple[float, float]:
    """One pod: milliseconds from the first command on."""
    before = 0.0
    *preparing, last = engine.commands()
    for command in preparing:
        before += timed(command, engine.env, output)[1]
    said, ended = timed(last, engine.env, output)
    if not said:
        sys.exit(f"no output: {' '.join(last)}\n{output.read_text()}")
    engine.clear()
    return before + said, before + ended


def measure_time(found: list[Engine], options: argparse.Namespace, output: Path) -> list[Times]:
    """By engine; the order turns with every round."""
    times = [Times() for _ in found]
    for number in range(-options.warmup, options.rounds):
        for step in range(len(found)):
            at = (number + step) % len(found)
            said, ended = life(found[at], output)
            if number >= 0:
                times[at].first_line.append(said)
                times[at].end.append(ended)
    return times


def proportional_kib(pid: int) -> int:
    """PSS of a process; 0 if it has ended or is the kernel's."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def program_of(pid: int) -> str:
    """Its name as the kernel has it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def settled(before: set[int]) -> set[int]:
    """Processes that have come since and stay: twice the same, a while apart."""
    last: set[int] = set()
    for _ in range(20):
        processes.reap_orphans()
        now = processes.descendants() - before
        if now and now == last:
            return now
        last = now
        time.sleep(0.5)
    return last


@dataclass
class Weight:
    """KiB of PSS for each idle pod: at first, then, and the programs that make up the latter."""

    first: float
    later: float
    parts: str


def measure_memory(engine: Engine, count: int) -> Weight:
    """Of ``count`` idle pods."""
    processes.reap_orphans()
    before = processes.descendants()
    for number in range(count):
        engine.idle(number)
    found = settled(before)
    first = sum(proportional_kib(pid) for pid in found)
    engine.await_rest(found)
    parts: Counter[str] = Counter()
    for pid in found:
        parts[program_of(pid)] += proportional_kib(pid)
    words = [f"{name} {kib / count:.0f}" for name, kib in parts.most_common() if kib]
    return Weight(first / count, sum(parts.values()) / count, " + ".join(words))


def table_of_time(found: list[Engine], times: list[Times]) -> list[list[str]]:
    """Medians, and how many times longer than the first."""
    rows = [["median ms", FIRST_LINE, END]]
    middle = [(statistics.median(one.first_line), statistics.median(one.end)) for one in times]
    for engine, pair in zip(found, middle, strict=True):
        rows.append([engine.name, *(f"{number:.0f}" for number in pair)])
    for engine, pair in zip(found[1:], middle[1:], strict=True):
        ratios = [f"{own / other:.2f}" for own, other in zip(middle[0], pair, strict=True)]
        rows.append([f"{found[0].name} / {engine.name}", *ratios])
    return rows


def table_of_memory(found: list[Engine], weighed: list[Weight]) -> list[list[str]]:
    rows = [["idle pod, PSS KiB", "at first", "then", "of it"]]
    for engine, weight in zip(found, weighed, strict=True):
        rows.append([engine.name, f"{weight.first:.0f}", f"{weight.later:.0f}", weight.parts])
    return rows


def verdict(names: list[str], figures: list[float], word: str, unit: str) -> str:
    """Who has least, in a sentence."""
    ranked = sorted(zip(figures, names, strict=True))
    (least, first), *others = ranked
    rest = ", ".join(f"{name} {figure / least:.1f} times as much" for figure, name in others)
    return f"{word}: {first} with {least:.0f} {unit}" + (f"; {rest}" if rest else "")


def main() -> None:
    options = arguments()
    ours = [path.absolute() for path in options.runtime or []]
    ours = ours or [REPOSITORY / ".venv" / "bin" / "ociruntime"]
    theirs = options.peer_runtime or installed("runc")
    shape = as_markdown if options.markdown else as_text
    with workplace() as place, engines(ours, theirs, place) as found:
        timed_ones = [one for one in found if one.measures_time]
        times = measure_time(timed_ones, options, place / "output")
        weighed_ones = [one for one in found if one.measures_memory]
        weighed = [measure_memory(one, options.pods) for one in weighed_ones]
    print(shape(table_of_time(timed_ones, times)), end="\n\n")
    print(shape(table_of_memory(weighed_ones, weighed)), end="\n\n")
    names = [one.name for one in timed_ones]
    medians = [statistics.median(one.first_line) for one in times]
    print(verdict(names, medians, "fastest to the first line", "ms"))
    kib = [weight.later for weight in weighed]
    print(verdict([one.name for one in weighed_ones], kib, "smallest when idle", "KiB"))
    print(f"\n{machine()}; {options.rounds} rounds, alternating; {options.pods} idle pods each")


if __name__ == "__main__":
    main()
