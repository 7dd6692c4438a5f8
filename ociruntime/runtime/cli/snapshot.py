"""``ociruntime snapshot``: show, make, refresh or remove snapshots of the warm interpreter."""

from __future__ import annotations

import importlib.util
import os

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.startup import snapshot
from ociruntime.startup.snapshot_modules import PROGRAMS

VERBS = ("status", "make", "refresh", "remove")


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Show, make, refresh or remove the snapshots of the named programs.

    Without a name, handles all installed programs.  Returns 0; for `status`, 1 if a snapshot is not
    usable.
    """
    verb, *programs = arguments.positional
    if verb not in VERBS:
        hint = "use status, make, refresh or remove"
        raise UsageError(f'snapshot: unknown action "{verb}"', hint)
    for program in programs:
        if program not in PROGRAMS:
            raise UsageError(f'snapshot: unknown program "{program}"', f"use {', '.join(PROGRAMS)}")
        if verb in ("make", "refresh") and not _can_start(program):
            raise RuntimeFailure(
                f'make the snapshot of {program}: package "{PROGRAMS[program].requires}" not found',
                "pip install 'ociruntime[manager]'",
            )
    if not snapshot.location(os.environb, os.geteuid()):
        raise UsageError(
            "snapshot: XDG_RUNTIME_DIR is not set", "set it to a directory that you own"
        )
    if verb in ("make", "refresh"):
        os.chdir("/")  # a background process must not keep the caller's mounts busy
    statuses, failures = [], []
    for program in programs or filter(_can_start, PROGRAMS):
        path = snapshot.location(os.environb, os.geteuid(), program)
        try:
            statuses.append(_one(verb, path))
        except RuntimeFailure as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return max(statuses)


def _can_start(program: str) -> bool:
    """Return whether the packages that the program requires are installed."""
    required = PROGRAMS[program].requires
    return not required or importlib.util.find_spec(required) is not None


def _one(verb: str, path: str) -> int:
    """Carry out ``verb`` for the snapshot at ``path`` and print the result.

    Returns the exit status.
    """
    if verb == "make":
        return write(f"{path}: {snapshot.make(path)} bytes\n")
    if verb == "refresh":
        made = snapshot.refresh(path)
        return write(f"{path}: {'made' if made else 'unchanged'}\n")
    if verb == "remove":
        return write(f"{path}: {'removed' if snapshot.remove(path) else 'not found'}\n")
    try:
        size = snapshot.inspect(path)
    except snapshot.Unusable as reason:
        write(f"{path}: not used: {reason}\n")
        return 1
    return write(f"{path}: used, {size} bytes\n")


COMMANDS = (
    Command(
        "snapshot status|make|refresh|remove [PROGRAM]...",
        "manage the startup snapshots",
        run,
        most=5,
        details=(
            "A snapshot of the warm interpreter saves create, exec and ocipod 9 ms per start,\n"
            "ocictl 12 and ocid 120. PROGRAM is ociruntime, ocipod, ocictl or ocid (default:\n"
            "all). A program's first command after boot makes its snapshot. A snapshot is\n"
            "ignored when anything that it depends on has changed. `refresh` makes missing\n"
            "and outdated ones, and does not wait for another process that is making one.\n"
            "The file /etc/ociruntime/no-snapshot disables snapshots."
        ),
        examples=(
            (
                "Show whether commands start from a snapshot, and if not, why",
                "ociruntime snapshot status",
            ),
            ("Make snapshots at boot, or after an upgrade", "ociruntime snapshot refresh"),
        ),
    ),
)
