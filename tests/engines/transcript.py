"""A script of commands, and an engine's answer to each of them.

A script is text with one command per line; a command that must fail begins with ``!``, one to
repeat until the engine has noticed a change with ``?``.  Values that differ from run to run (ids,
times, pids, the runtime's name) are replaced, so that two transcripts can be compared.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from tests.engines.image import NAME
from tests.support import cgroupfs
from tests.support.runtime import Result

MAIN = "trap 'exit 3' TERM; echo ready; sleep 1000 & echo $! >/ready; wait"
AWAIT = "until read pid </ready && grep -q sleep /proc/$pid/comm; do sleep 0.02; done 2>/dev/null"
# Words of every script.  A command inside of the container can wait until its second process,
# which the engine lists, runs its program.  Of shares only the greatest is the same weight for all:
# crun and runc do not agree on the numbers between.
WORDS = {
    "IMAGE": NAME,
    "MAIN": f"sh -c {shlex.quote(MAIN)}",
    "AWAIT": f"sh -c {shlex.quote(AWAIT)}",
    "SHARES": "cat /sys/fs/cgroup/" + ("cpu.weight" if cgroupfs.is_v2() else "cpu/cpu.shares"),
}
SECONDS = 30  # for what has to be tried again
ALWAYS_ANOTHER = [
    (r"\b([0-9a-f]{12}|[0-9a-f]{64})\b", "ID"),
    (r"(Less than a second|\d+ seconds?) ago", "TIME"),
    # What podman finds busy for a moment depends on how quickly the kernel lets go.
    (r'(?m)^time=.*"?Failed to remove cgroup \(will retry\).*\n', ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "TIME"),
    (r"[ \t]+", " "),
    (r"(?m)^ ?\d{2,} ", "PID "),
    (r"\d+(?= (RUNNING|PAUSED))", "PID"),
]


def transcript(command: Callable[..., Result], script: str, runtime: Path) -> list[str]:
    """Return arguments, exit status and output of each command.

    Raises AssertionError if a command does not end as expected.
    """
    lines = []
    end = time.monotonic() + SECONDS
    for line in script.strip().splitlines():
        text = line.removeprefix("! ").removeprefix("? ")
        for name, meaning in WORDS.items():
            text = text.replace(name, meaning)
        words = shlex.split(text)
        result = command(*words)
        while line.startswith("? ") and result.status != 0 and time.monotonic() < end:
            result = command(*words)
        assert (result.status != 0) == line.startswith("! "), result
        out, err = (_steady(stream, runtime) for stream in (result.out, result.err))
        # How the runtime words an error is tested elsewhere.
        own_words = result.status != 0 and "untime" in err
        lines.append(f"{line} -> {result.status}\n{out}{'' if own_words else err}")
    return lines


def _steady(text: str, runtime: Path) -> str:
    text = text.replace(str(runtime), "RUNTIME").replace(runtime.name, "RUNTIME")
    for pattern, word in ALWAYS_ANOTHER:
        text = re.sub(pattern, word, text)
    return text
