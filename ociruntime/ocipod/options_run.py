"""Commands that make pods of images, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.pod.app_options import (
    ALSO_OF_POD,
    APP_OPTIONS,
    PREPARE_OPTIONS,
    PREPARED_OPTIONS,
    RUN_OPTIONS,
    SAVED_OPTIONS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command

ANY = 1 << 30
# Those that a pod and an app can have are told once.
_POD_OPTIONS = tuple(option for option in PREPARE_OPTIONS if option[0] not in ALSO_OF_POD)
_DETAILS = (
    "Options from --name on belong to the IMAGE before them. What follows -- are its\n"
    "arguments, in place of the image's own; --- ends them, and another may come."
)
_SYNOPSIS = "[OPTION]... IMAGE [APP-OPTION]... [-- ARG... [--- IMAGE]]"

RUN_COMMANDS: tuple[Command, ...] = (
    (
        "run",
        _SYNOPSIS,
        0,
        ANY,
        "run apps from images as one pod, and end as it ends",
        (*_POD_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS, *APP_OPTIONS),
        _DETAILS,
    ),
    (
        "prepare",
        _SYNOPSIS,
        0,
        ANY,
        "make a pod that can be run later, and print its UUID",
        (*_POD_OPTIONS, *PREPARED_OPTIONS, *APP_OPTIONS),
        _DETAILS,
    ),
    (
        "run-prepared",
        "UUID",
        1,
        1,
        "run a prepared pod, and end as it ends",
        RUN_OPTIONS,
        "",
    ),
)
