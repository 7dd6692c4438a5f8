"""The mount table of a container."""

from __future__ import annotations

from pathlib import Path

from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.plugin import MakeContainer


class Seen:
    """A line of a mountinfo."""

    def __init__(self, line: str) -> None:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        self.target = fields[4]
        self.root = fields[3]
        self.options = set(fields[5].split(","))
        self.propagation = [word.split(":")[0] for word in fields[6:]]
        self.fstype, self.source, super_options = right.split(" ", 2)
        self.super_options = set(super_options.split(","))


def mounts_of(one: Container) -> dict[str, Seen]:
    """Return the container's mounts by mount point, the topmost of several."""
    text = Path(f"/proc/{one.pid}/mountinfo").read_text()
    lines = [Seen(line) for line in text.splitlines()]
    return {line.target: line for line in lines}


def seen(container: MakeContainer, bundle: Bundle, target: str) -> Seen:
    """Return the mount at a path in a created container."""
    return mounts_of(container(bundle).created())[target]
