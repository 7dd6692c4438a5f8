"""Commands that tell of containers, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_FORMAT: Option = ("format", "", "text", "FORM", "json, `table COLUMN,...` or {{.Field}}")
_FILTER: Option = ("filter", "f", "list", "KEY=VALUE", "those alone for which it is so")
_SINCE: Option = ("since", "", "text", "TIME", "from then on: 10m (ago), or a date")
_UNTIL: Option = ("until", "", "text", "TIME", "no longer than until then")

SEEN_COMMANDS: tuple[Command, ...] = (
    (
        "ps",
        "",
        0,
        0,
        "list containers that run",
        (
            ("all", "a", "flag", "", "and those that do not"),
            ("quiet", "q", "flag", "", "ids alone"),
            ("last", "n", "number", "N", "the N made last, running or not"),
            ("no-trunc", "", "flag", "", "ids and commands in full"),
            ("no-legend", "", "flag", "", "leave out the line with the titles"),
            _FILTER,
            _FORMAT,
        ),
        "Filters: id, name, status, label, ancestor (the image), exited (an exit code).",
    ),
    ("inspect", "CONTAINER...", 1, ANY, "print all about containers, as JSON", (_FORMAT,), ""),
    (
        "logs",
        "CONTAINER",
        1,
        1,
        "print what a container has written",
        (
            ("follow", "f", "flag", "", "go on until it ends"),
            ("tail", "n", "number", "N", "begin N lines before the end"),
            ("timestamps", "t", "flag", "", "with the time in front of each line"),
            _SINCE,
            _UNTIL,
        ),
        "What it wrote to standard error goes there.",
    ),
    (
        "events",
        "",
        0,
        0,
        "print what becomes of containers, as it happens",
        (_SINCE, _UNTIL, _FILTER, _FORMAT),
        "",
    ),
    (
        "stats",
        "[CONTAINER]...",
        0,
        ANY,
        "print what containers use of the machine",
        (_FORMAT, ("no-stream", "", "flag", "", "")),
        "Without an argument, of all that run.",
    ),
    (
        "top",
        "CONTAINER",
        1,
        1,
        "list the processes of a container",
        (_FORMAT,),
        "",
    ),
    ("port", "CONTAINER", 1, 1, "list the ports that are forwarded to a container", (), ""),
)
