"""Many lifecycles in a row, after which all counters must have their initial values."""

from __future__ import annotations

import os
from typing import Any

from tests.soak import kernel_counters
from tests.soak.subjects import Subject, clear, left, look


def live(subject: Subject, name: str) -> None:
    """Run one lifecycle; raises Failed (bench/place.py) if a command fails."""
    subject.spawn(*subject.create_words(name))
    subject.spawn(*subject.words("start", name))
    subject.spawn(*subject.words("state", name))
    subject.spawn(*subject.words("exec", name, "true"))
    subject.spawn(*subject.words("kill", name, "KILL"))
    os.waitpid(subject.pid(name), 0)
    subject.spawn(*subject.words("delete", name))


def run(subject: Subject, count: int) -> list[str]:
    """Run ``count`` lifecycles; return what is left behind."""
    before = look(subject)
    for _ in range(count):
        live(subject, f"{subject.prefix}-life")
    remains = left(subject, before)
    if remains:
        clear(subject, before)
    return [f"left: {line}" for line in remains]


def batch(subject: Subject, count: int) -> dict[str, Any]:
    """Run ``count`` lifecycles; return what is left behind, and the kernel's counters."""
    problems = run(subject, count)
    return {"count": count, "reading": kernel_counters.read(), "problems": problems}
