"""System calls of a program and its children, in order, as strace saw them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

PROGRAM = shutil.which("strace")
LINE = re.compile(r"^(?P<pid>\d+) +(?P<rest>.*)$")
RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")
UNFINISHED = "<unfinished ...>"


class Call:
    """A system call, at its position among those of all processes when it began."""

    def __init__(self, pid: int, text: str) -> None:
        self.pid = pid
        self.text = text

    @property
    def name(self) -> str:
        return self.text.partition("(")[0]

    @property
    def succeeded(self) -> bool:
        result = self.text.rpartition(" = ")[2]
        return not result.startswith(("-1", "?"))

    def __repr__(self) -> str:
        return f"{self.pid} {self.text}"


def command(output: Path, *words: str) -> list[str]:
    """Return the argv that runs ``words`` and logs its calls, with the paths of descriptors."""
    return [str(PROGRAM), "-f", "-yy", "-s", "64", "-o", str(output), *words]


def read(output: Path) -> list[Call]:
    """Return the calls; interrupted lines are joined."""
    calls: list[Call] = []
    open_calls: dict[int, Call] = {}
    for line in output.read_text(errors="replace").splitlines():
        found = LINE.match(line)
        if not found or found["rest"].startswith(("+++", "---")):
            continue
        pid, rest = int(found["pid"]), found["rest"]
        if resumed := RESUMED.match(rest):
            if pid in open_calls:
                open_calls.pop(pid).text += resumed["rest"]
            continue
        call = Call(pid, rest.removesuffix(UNFINISHED))
        calls.append(call)
        if rest.endswith(UNFINISHED):
            open_calls[pid] = call
    return calls
