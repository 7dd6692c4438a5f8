"""Commands about images, pods and the daemon, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_FORMAT: Option = ("format", "", "text", "FORM", "json, `table COLUMN,...` or {{.Field}}")
_QUIET: Option = ("quiet", "q", "flag", "", "ids alone")
_NO_LEGEND: Option = ("no-legend", "", "flag", "", "leave out the line with the titles")

IMAGE_COMMANDS: tuple[Command, ...] = (
    (
        "images",
        "",
        0,
        0,
        "list the images of the store",
        (_QUIET, ("no-trunc", "", "flag", "", "ids in full"), _NO_LEGEND, _FORMAT),
        "",
    ),
    (
        "pull",
        "IMAGE...",
        1,
        ANY,
        "put images into the store",
        (
            _QUIET,
            ("pull", "", "choice", "missing|always|never", "when to ask the registry (always)"),
            ("insecure", "", "list", "CHECK", "a check to leave out: image, tls, http"),
        ),
        "Prints the id of each.",
    ),
    (
        "rmi",
        "IMAGE...",
        1,
        ANY,
        "remove images",
        (("force", "f", "flag", "", "also those that containers use"),),
        "",
    ),
    ("pod ls", "", 0, 0, "list pods, those of ocipod as well", (_QUIET, _NO_LEGEND, _FORMAT), ""),
    (
        "pod stop",
        "UUID...",
        1,
        ANY,
        "end running pods",
        (("time", "t", "number", "SECONDS", "between the stop signal and KILL (10)"),),
        "",
    ),
    ("pod rm", "UUID...", 1, ANY, "remove pods that do not run", (), ""),
    ("info", "", 0, 0, "print what is known of the daemon and its host", (_FORMAT,), ""),
    ("version", "", 0, 0, "print the versions of ocictl and of the daemon", (_FORMAT,), ""),
)
