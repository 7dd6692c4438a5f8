"""Commands about images, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command

IMAGE_COMMANDS: tuple[Command, ...] = ()
