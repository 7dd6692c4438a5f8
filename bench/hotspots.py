"""Profile `create` and `exec`: phases by --timeline, CPU time by perf(1).

The sampling rate is low enough to slow a command only slightly. A sample is attributed to the
outermost kernel entry: a page fault or a system call with everything inside it. A sample from user
space is attributed to the program whose code ran.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.bundles import Bundles
from bench.document import Profile
from bench.life import Container
from bench.place import ENVIRONMENT, Failed, find_program
from bench.runtimes import Runtime

FREQUENCY = 5000
ROUNDS = 20
RECORD = ["record", "--quiet", "--call-graph=fp", f"--freq={FREQUENCY}", "--event=cpu-clock"]
SCRIPT = ["script", "--fields=comm,period,ip,sym,dso"]
EXECUTORS = {"ociruntime-init", "memfd:ociruntim"}
FAULT = "asm_exc_page_fault"
CALL = "do_syscall_64"
KERNEL = "[kernel.kallsyms]"
# Prefixes of the kernel's functions for system calls.
PREFIXES = ("__x64_sys_", "__do_sys_", "__se_sys_", "ksys_", "do_")
# The program behind a file of code, by a part of its name.
CODE = {
    "python": "interpreter",
    "libc.so": "C library",
    "ld-linux": "dynamic linker",
    ".abi3.so": "extension modules",
    ".cpython-": "extension modules",
    "memfd:": "executor's code",
    "ociruntime": "launcher's code",
}


@dataclass(frozen=True)
class Sample:
    """A sample's call stack: ``frames`` are pairs of function and file, the innermost first."""

    comm: str
    milliseconds: float
    frames: tuple[tuple[str, str], ...]


def samples(text: str) -> Iterator[Sample]:
    """Parse what ``perf script`` prints."""
    for block in text.split("\n\n"):
        head, *lines = block.strip("\n").splitlines() or [""]
        if not head.strip():
            continue
        comm, period = head.rsplit(maxsplit=1)
        yield Sample(comm.strip(), int(period) / 1e6, tuple(map(_frame, lines)))


def _frame(line: str) -> tuple[str, str]:
    """Return function and file of "ADDRESS FUNCTION (FILE)"."""
    _, _, rest = line.strip().partition(" ")
    function, _, file = rest.partition(" (")
    return function, file.removesuffix(")")


def process_of(sample: Sample) -> str:
    """Return "runtime", "executor" or "program" (the container's)."""
    if sample.comm in EXECUTORS:
        return "executor"
    return "runtime" if sample.comm.startswith("ociruntime") else "program"


def activity(sample: Sample) -> str:
    """Return what the sample shows: "page faults", a system call, or the program whose code ran."""
    functions = [function for function, _ in sample.frames]
    for index in range(len(functions) - 1, -1, -1):
        if functions[index] == FAULT:
            return "page faults"
        if functions[index] == CALL and index:
            return f"{_system_call(functions[index - 1])}()"
    file = sample.frames[0][1] if sample.frames else ""
    if file == KERNEL:
        return "kernel, other"
    return next((name for part, name in CODE.items() if part in file), "its own code")


def _system_call(function: str) -> str:
    for prefix in PREFIXES:
        function = function.removeprefix(prefix)
    return function.partition(".")[0]


def shares(found: Iterator[Sample]) -> dict[str, float]:
    """Return milliseconds by process and activity, the largest first."""
    total: dict[str, float] = defaultdict(float)
    for sample in found:
        total[f"{process_of(sample)}: {activity(sample)}"] += sample.milliseconds
    return _by_size(total)


def _by_size(values: dict[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def spans(trace: dict[str, list[dict[str, object]]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return milliseconds of the runtime's phases and of the executor's operations, by name.

    Phases and operations of one name are added up.
    """
    threads: dict[object, dict[str, float]] = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            thread, name = threads[event["tid"]], str(event["name"])
            thread[name] = thread.get(name, 0.0) + float(str(event["dur"])) / 1e3
    return threads[1], threads[2]


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each name over all rounds; a missing name counts as 0."""
    names = dict.fromkeys(name for found in rounds for name in found)
    return {name: median(found.get(name, 0.0) for found in rounds) for name in names}


def measure(runtime: Runtime, bundles: Bundles) -> Profile:
    """Profile `create` and `exec` of one runtime, with the plain configuration."""
    bundle = bundles.write("profile", bundles.plain)
    container = Container(runtime, bundle)
    trace = bundle / "timeline.json"
    phases, operations = [], []
    for _ in range(ROUNDS):
        runtime.spawn(*container.create_words(), f"--timeline={trace}")
        found = spans(json.loads(trace.read_text()))
        found[0].pop("load the timeline", None)  # only commands with --timeline do that
        phases.append(found[0])
        operations.append(found[1])
        container.end()
    create: list[dict[str, float]] = []
    execute: list[dict[str, float]] = []
    perf = find_program("perf")
    for _ in range(ROUNDS if perf else 0):
        create.append(_sampled(perf, runtime, container.create_words(), bundle))
        container.call("start")
        words = runtime.words("exec", container.name, "true")
        execute.append(_sampled(perf, runtime, words, bundle))
        container.end()
    return {
        "phases": medians(phases),
        "operations": medians(operations),
        "create": means(middle(create)),
        "exec": means(middle(execute)),
    }


def middle(rounds: list[dict[str, float]]) -> list[dict[str, float]]:
    """Drop the slowest and the fastest quarter of the rounds."""
    quarter = len(rounds) // 4
    ordered = sorted(rounds, key=lambda found: sum(found.values()))
    return ordered[quarter : len(rounds) - quarter]


def means(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each name; samples are too coarse for medians."""
    total: dict[str, float] = defaultdict(float)
    for found in rounds:
        for name, value in found.items():
            total[name] += value / len(rounds)
    return _by_size(total)


def _sampled(perf: str, runtime: Runtime, words: list[str], place: Path) -> dict[str, float]:
    data = place / "perf.data"
    with runtime.namespace.entered():
        _run([perf, *RECORD, f"--output={data}", "--", *words])
    return shares(samples(_run([perf, *SCRIPT, f"--input={data}"])))


def _run(command: list[str]) -> str:
    """Run a command and return its output, through a file: a container would keep a pipe open."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        done = subprocess.run(
            command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
        out.seek(0)
        text = out.read()
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {text[-2000:]}")
    return text
