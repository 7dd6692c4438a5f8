"""The host's systemd, for tests in which the runtime talks to it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.runtime import Result, execute

BOOTED = "run/systemd/system"  # sd_booted(3)
HOST = Path("/proc/1/root")  # the mounts of the host's init: tests see an empty /run


def booted() -> bool:
    """Return whether systemd is the host's init."""
    return os.geteuid() == 0 and os.path.isdir(HOST / BOOTED)  # False also if we may not look


def show_manager() -> None:
    """Link the empty /run of the tests' mount namespace to systemd's own sockets."""
    for name in ("systemd", "dbus", "user"):
        place = Path("/run", name)
        if not place.exists() and not place.is_symlink():
            place.symlink_to(HOST / "run" / name)


def systemctl(*words: str) -> Result:
    """Run ``systemctl``, which must succeed."""
    return execute(["systemctl", *words]).ok()


def properties(unit: str, *names: str) -> dict[str, str]:
    """Return properties of a unit from systemctl(1); several values are joined by blanks."""
    shown: dict[str, str] = {}
    for line in systemctl("show", unit, "--property", ",".join(names)).out.splitlines():
        name, _, value = line.partition("=")
        shown[name] = f"{shown[name]} {value}" if name in shown else value
    return shown


def units(tag: str) -> list[str]:
    """Return the names of systemd's units that contain the tag, except slices."""
    words = ("list-units", "--all", "--plain", "--no-legend", f"*{tag}*")
    names = [line.split()[0] for line in systemctl(*words).out.splitlines()]
    return [name for name in names if not name.endswith(".slice")]
