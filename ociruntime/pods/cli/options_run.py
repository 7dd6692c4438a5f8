"""Commands that make pods from images, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.pods.manifest.app_options import (
    ALSO_OF_POD,
    APP_OPTIONS,
    PREPARE_OPTIONS,
    PREPARED_OPTIONS,
    RUN_OPTIONS,
    SAVED_OPTIONS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command

ANY = 1 << 30
# Options that both a pod and an app can have are shown once.
_POD_OPTIONS = tuple(option for option in PREPARE_OPTIONS if option[0] not in ALSO_OF_POD)
_DETAILS = (
    "Options from --name on belong to the IMAGE before them. Arguments after --\n"
    "replace those of the image; --- ends them, before the next IMAGE."
)
_SYNOPSIS = "[OPTION]... IMAGE [APP-OPTION]... [-- ARG... [--- IMAGE]]"

RUN_COMMANDS: tuple[Command, ...] = (
    (
        "run",
        _SYNOPSIS,
        0,
        ANY,
        "run apps from images as a pod",
        (*_POD_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS, *APP_OPTIONS),
        _DETAILS,
    ),
    (
        "prepare",
        _SYNOPSIS,
        0,
        ANY,
        "prepare a pod to run later, print its UUID",
        (*_POD_OPTIONS, *PREPARED_OPTIONS, *APP_OPTIONS),
        _DETAILS,
    ),
    (
        "run-prepared",
        "UUID",
        1,
        1,
        "run a prepared pod",
        RUN_OPTIONS,
        "",
    ),
)
