"""Run `mounts add` and `mounts remove`, and inspect a container's mounts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.container import Container
from tests.support.runtime import Result


def change(one: Container, action: str, *mounts: dict[str, Any]) -> Result:
    """Add or remove mounts of a container."""
    file = one.bundle.path / "further.json"
    file.write_text(json.dumps(mounts))
    return one.runtime("mounts", action, one.id, str(file))


def entry(destination: str, fstype: str, source: Path | str, *options: str) -> dict[str, Any]:
    """Return a member of the file."""
    return {
        "destination": destination,
        "type": fstype,
        "source": str(source),
        "options": list(options),
    }


def mount_lines(one: Container) -> list[str]:
    """Return the lines of the container's mountinfo."""
    return Path(f"/proc/{one.pid}/mountinfo").read_text().splitlines()


def mounted(one: Container) -> list[str]:
    """Return the mount points that the container's process sees."""
    return [line.split()[4] for line in mount_lines(one)]
