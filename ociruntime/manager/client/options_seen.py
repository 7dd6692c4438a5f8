"""Commands that show containers, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_FORMAT: Option = ("format", "", "text", "FORM", "format: json, `table COLUMN,...` or {{.Field}}")
_FILTER: Option = ("filter", "f", "list", "KEY=VALUE", "filter the output")
_SINCE: Option = ("since", "", "text", "TIME", "start time: 10m (ago) or a date")
_UNTIL: Option = ("until", "", "text", "TIME", "end time")

SEEN_COMMANDS: tuple[Command, ...] = (
    (
        "ps",
        "",
        0,
        0,
        "list running containers",
        (
            ("all", "a", "flag", "", "show all containers, not only running ones"),
            ("quiet", "q", "flag", "", "print only IDs"),
            ("last", "n", "number", "N", "show the N latest containers, in any state"),
            ("no-trunc", "", "flag", "", "do not truncate IDs and commands"),
            ("no-legend", "", "flag", "", "omit the header"),
            _FILTER,
            _FORMAT,
        ),
        "Filters: id, name, status, label, ancestor (image), exited (exit code).",
    ),
    ("inspect", "CONTAINER...", 1, ANY, "show details of containers as JSON", (_FORMAT,), ""),
    (
        "logs",
        "CONTAINER",
        1,
        1,
        "print the logs of a container",
        (
            ("follow", "f", "flag", "", "follow the log output"),
            ("tail", "n", "number", "N", "show only the last N lines"),
            ("timestamps", "t", "flag", "", "show timestamps"),
            _SINCE,
            _UNTIL,
        ),
        "Output to standard error is printed to standard error.",
    ),
    (
        "events",
        "",
        0,
        0,
        "stream events of containers",
        (_SINCE, _UNTIL, _FILTER, _FORMAT),
        "",
    ),
    (
        "stats",
        "[CONTAINER]...",
        0,
        ANY,
        "show resource usage of containers",
        (_FORMAT, ("no-stream", "", "flag", "", "")),
        "Default: all running containers.",
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
    ("port", "CONTAINER", 1, 1, "list the published ports of a container", (), ""),
)
