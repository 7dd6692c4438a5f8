"""The table of the commands of ``ocipod``: their modules, and their groups in the help."""

from __future__ import annotations

from ociruntime.commandline.program import Groups, Program
from ociruntime.pods.cli.options import GLOBAL_OPTIONS

# Title in the help -> module -> its commands; internal commands have no title.
GROUPS: Groups = {
    "pods": {
        "run_pods": ("run", "prepare", "run-prepared"),
        "pods": ("list", "status", "rm", "gc", "cat-manifest", "stop", "version"),
        "logs": ("logs",),
        "apps": ("attach", "enter"),
        "exports": ("export",),
    },
    "apps of a running pod": {
        "run_pods": ("app sandbox", "app add"),
        "apps": ("app start", "app stop", "app rm", "app list", "app status", "app exec"),
        "app_files": ("app copy-out", "app copy-in", "app diff"),
    },
    "images": {
        "fetch": ("fetch", "image load", "trust", "config"),
        "login": ("login", "logout"),
        "images": (
            "image list",
            "image rm",
            "image gc",
            "image verify",
            "image cat-manifest",
            "image inspect",
            "image history",
            "image tag",
        ),
        "exports": ("image export", "image extract", "image render"),
    },
    "": {"monitor": ("monitor",)},
}

PROGRAM = Program(
    "ocipod",
    "ociruntime.pods.cli",
    "Run pods of containers without a daemon, and manage images.",
    GLOBAL_OPTIONS,
    GROUPS,
)
