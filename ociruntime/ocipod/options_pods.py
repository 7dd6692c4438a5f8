"""Commands about pods, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command

POD_COMMANDS: tuple[Command, ...] = (
    (
        "monitor",
        "UUID",
        1,
        1,
        "",
        (
            ("lock-fd", "", "number", "N", ""),
            ("detach-fd", "", "number", "N", ""),
            ("print-uuid", "", "flag", "", ""),
        ),
        "",
    ),
    (
        "version",
        "",
        0,
        0,
        "print the versions of ocipod and of what it stands on",
        (),
        "",
    ),
)
