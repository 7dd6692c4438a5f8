"""`ociruntime features`: print what this runtime supports, as JSON."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.features import features


def run_features(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Print the Features Structure (runtime-spec, features.md) as JSON; return 0.

    Prints no warnings: some callers merge stdout and stderr.
    """
    return write(dump(features(arguments.text("criu")), 2) + "\n")


COMMANDS = (
    Command(
        "features",
        "print the supported features as JSON",
        run_features,
        details="The document is the Features Structure of the runtime specification.",
        examples=(("List the mount options", "ociruntime features | jq .mountOptions"),),
    ),
)
