"""Containers without a mount namespace: their mounts in the host's mount table."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.support import isolation
from tests.support.bundle import Bundle

ADMIN = ("CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER", "CAP_KILL")


def on_host(made: Bundle) -> Bundle:
    """Remove the mount namespace, and settings that only one of the peers refuses without it."""
    made.without_namespace("mount")
    for member in ("maskedPaths", "readonlyPaths"):
        made.linux.pop(member, None)
    return made


def below(directory: Path, process: str = "self") -> list[str]:
    """Return the mount points at and below a directory, in the order of mountinfo."""
    text = Path(f"/proc/{process}/mountinfo").read_text()
    points = [line.split(" ")[4] for line in text.splitlines()]
    return [one for one in points if f"{one}/".startswith(f"{directory}/")]


def unmount_below(directory: Path) -> None:
    """Unmount what a peer has left behind."""
    while left := below(directory):
        with contextlib.suppress(OSError):
            isolation.unmount(left[-1])
