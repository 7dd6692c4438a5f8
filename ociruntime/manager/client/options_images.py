"""Commands about images, pods and the daemon, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_FORMAT: Option = ("format", "", "text", "FORM", "format: json, `table COLUMN,...` or {{.Field}}")
_QUIET: Option = ("quiet", "q", "flag", "", "print only IDs")
_NO_LEGEND: Option = ("no-legend", "", "flag", "", "omit the header")

IMAGE_COMMANDS: tuple[Command, ...] = (
    (
        "images",
        "",
        0,
        0,
        "list images",
        (_QUIET, ("no-trunc", "", "flag", "", "do not truncate IDs"), _NO_LEGEND, _FORMAT),
        "",
    ),
    (
        "pull",
        "IMAGE...",
        1,
        ANY,
        "download images",
        (
            _QUIET,
            ("pull", "", "choice", "missing|always|never", "pull policy (default: always)"),
            ("insecure", "", "list", "CHECK", "skip a check: image, tls, http"),
        ),
        "Prints the ID of each image.",
    ),
    (
        "rmi",
        "IMAGE...",
        1,
        ANY,
        "remove images",
        (("force", "f", "flag", "", "remove images that containers use, too"),),
        "",
    ),
    ("pod ls", "", 0, 0, "list pods, including those of ocipod", (_QUIET, _NO_LEGEND, _FORMAT), ""),
    (
        "pod stop",
        "UUID...",
        1,
        ANY,
        "stop running pods",
        (("time", "t", "number", "SECONDS", "timeout before SIGKILL (default: 10)"),),
        "",
    ),
    ("pod rm", "UUID...", 1, ANY, "remove stopped pods", (), ""),
    ("info", "", 0, 0, "show information about the daemon and its host", (_FORMAT,), ""),
    ("version", "", 0, 0, "print the versions of ocictl and ocid", (_FORMAT,), ""),
)
