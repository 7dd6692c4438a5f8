"""Pods in the background, and the exit of their apps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell


def state(ocipod: Ocipod, uuid: str, app: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        (ocipod.path(uuid) / "apps" / app / "state.json").read_text()
    )
    return value


def ending(ocipod: Ocipod, uuid: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ocipod.path(uuid) / "exit").read_text())
    return value


def start(ocipod: Ocipod, work: Path, *scripts: str) -> str:
    """Run a pod in the background, with an app per script (a, b and so on); return its UUID."""
    words: list[str] = []
    for name, script in zip("abc", scripts, strict=False):
        words += ["---"] if words else []
        words += [busybox(work), f"--name={name}", *shell(script)]
    return ocipod("run", "--detach", "--net=none", *words).ok().out.strip()


def wait_until_up(ocipod: Ocipod, uuid: str, app: str) -> None:
    """Wait until the app has printed "up"."""
    log = ocipod.path(uuid) / "logs" / f"{app}.log"
    assert processes.until(lambda: b" up\n" in log.read_bytes(), 20)
