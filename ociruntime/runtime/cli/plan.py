"""`ociruntime plan [BUNDLE]`: print the operations that `create` would run."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import (
    CONTAINER_OPTIONS,
    container_options,
    take_bundle_argument,
)
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.plan import plan, plan_text, plan_values


def run_plan(context: Context, arguments: Arguments) -> int:
    """Print the operations that `create` would carry out, without creating a container."""
    take_bundle_argument(arguments)
    container_id = arguments.text("id", "plan")
    check_id(container_id)
    options = container_options(arguments, container_id, detach=True)
    host, compiled = plan(context, options)
    if arguments.text("format") == "json":
        return write(dump(plan_values(host, compiled), 2) + "\n")
    return write(plan_text(host, compiled))


COMMANDS = (
    Command(
        "plan [BUNDLE]",
        "show what `create` would do, step by step",
        run_plan,
        options=(
            *CONTAINER_OPTIONS,
            Option("id", "ID of the container (default: plan)", "ID", completed=False),
            Option("format", "output format (default: text)", "text|json", kind="choice"),
        ),
        details="Nothing is created or changed. Each step names its setting in config.json.",
        examples=(
            ("Show the steps of `create`", "ociruntime plan /srv/web"),
            ("Show them as JSON", "ociruntime plan --format json /srv/web"),
        ),
    ),
)
