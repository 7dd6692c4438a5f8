"""``ocipod gc``."""

from __future__ import annotations

import posix

from ociruntime.base.log import plain
from ociruntime.commandline.output import tell, write
from ociruntime.pods.cli.durations import period
from ociruntime.pods.garbage import garbage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Mark and remove stopped pods; errors with a pod are printed, and the exit status is 0."""
    grace = _period(arguments, "grace-period", garbage.GRACE)
    expiry = _period(arguments, "expire-prepared", garbage.EXPIRY)
    mark_only = arguments.flag("mark-only")
    for kind, uuid, text in garbage.collect(context.directory, grace, expiry, mark_only=mark_only):
        if kind == garbage.COLLECTING:
            write(f'Garbage collecting pod "{uuid}"\n')
        elif kind == garbage.MOVED:
            _print(f'moving pod "{uuid}" to garbage')
        elif kind == garbage.KEPT:
            _print(f'pod "{uuid}" not removed: {text}')
        else:
            tell("ocipod", f'pod "{uuid}": {text}')
    return 0


def _period(arguments: Arguments, name: str, default: float) -> float:
    text = arguments.text(name)
    return period(text, name) if text else default


def _print(line: str) -> None:
    posix.write(2, f"{plain(line)}\n".encode())
