"""Commands about single apps of a running pod, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command

APP_COMMANDS: tuple[Command, ...] = ()
