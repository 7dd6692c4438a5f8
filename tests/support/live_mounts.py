"""`mounts add` and `mounts remove`, and a container's mounts."""

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
    """One member of the file."""
    return {
        "destination": destination,
        "type": fstype,
        "source": str(source),
        "options": list(options),
    }


def mount_lines(one: Container) -> list[str]:
    """The container's mountinfo, line by line."""
    return Path(f"/proc/{one.pid}/mountinfo").read_text().splitlines()


def mounted(one: Container) -> list[str]:
    """Mount points, as the container's process has them."""
    return [line.split()[4] for line in mount_lines(one)]
