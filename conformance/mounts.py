"""Parse ``/proc/PID/mountinfo``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo (proc_pid_mountinfo(5)); ``tags`` are ``shared:1``, ``master:2`` ..."""

    id: int
    parent: int
    device: str
    root: str
    point: str
    options: frozenset[str]
    tags: frozenset[str]
    fstype: str
    source: str
    super_options: frozenset[str]

    @property
    def propagation(self) -> set[str]:
        """The tags without peer group numbers: ``shared``, ``master``, ``unbindable`` ..."""
        return {tag.split(":")[0] for tag in self.tags}


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def parse(text: str) -> list[Mount]:
    """Parse the text of mountinfo; return the mounts in the kernel's order."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        found.append(
            Mount(
                id=int(fields[0]),
                parent=int(fields[1]),
                device=fields[2],
                root=_plain(fields[3]),
                point=_plain(fields[4]),
                options=frozenset(fields[5].split(",")),
                tags=frozenset(fields[6:]),
                fstype=rest[0],
                source=_plain(rest[1]),
                super_options=frozenset(rest[2].split(",")),
            )
        )
    return found


def of(pid: int | str = "self") -> list[Mount]:
    """Return the mounts of a process; raises OSError if it has exited."""
    return parse(Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace"))


def at(point: str, mounts: list[Mount]) -> Mount | None:
    """Return the topmost mount on the mount point ``point``, None if there is none."""
    return next((one for one in reversed(mounts) if one.point == point), None)
