"""The console sessions of README.md: their commands, and the output shown there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import project

_END = "\n@@\n"


def as_printed(lines: list[str], home: Path) -> list[str]:
    """Return the text with placeholders for what always differs: numbers, times, widths, paths."""
    text = "\n".join(lines).replace(str(home), "/root")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d [\d:]+ \+0000 UTC", "TIME", text)
    text = re.sub(r"\bnow\b|\d+ seconds? ago", "TIME", text)
    text = re.sub(r"\bUp (less than a|\d+) seconds?\b", "Up TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "ID", text)
    text = re.sub(r"\b[0-9a-f]{8}((-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b", "UUID", text)
    text = re.sub(r'^time=\S+ level=error msg="(.*)"$', r"\1", text, flags=re.M)
    text = text.replace('\\"', '"')
    return [" ".join(re.sub(r"\d+", "N", line).split()) for line in text.splitlines()]


class Session:
    """The root sessions in one section, or in all sections but one, as one session."""

    def __init__(self, *, section: str = "", without: str = "") -> None:
        page = (project.ROOT / "README.md").read_text(encoding="utf-8")
        sections = re.split(r"(?m)^## ", page)
        chosen = [
            text
            for text in sections
            if (text.startswith(f"{section}\n") if section else not text.startswith(f"{without}\n"))
        ]
        blocks = re.findall(r"(?ms)^```console\n(.*?)^```", "\n".join(chosen))
        self.steps: list[tuple[str, list[str]]] = []  # a command, the lines it prints
        for line in "\n".join(block for block in blocks if block[0] == "#").splitlines():
            if line.startswith("# "):
                self.steps.append((line[2:], []))
            elif line:
                self.steps[-1][1].append(line)

    def script(self) -> str:
        """Return a shell script of all commands, whose output ``check`` understands."""
        return "".join(f"{command}\nprintf '\\n@@\\n'\n" for command, _ in self.steps)

    def check(self, output: str, home: Path, skipped: tuple[str, ...] = ()) -> None:
        """Assert that each command, except those ``skipped``, has printed what the page shows."""
        answers = output.split(_END)[:-1]
        assert len(answers) == len(self.steps), output
        for (command, expected), answer in zip(self.steps, answers, strict=True):
            if command not in skipped:
                assert as_printed(answer.splitlines(), home) == as_printed(expected, home), command
