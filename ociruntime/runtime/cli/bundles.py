"""The commands `spec` (write a default config.json), `plan` and `features`."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.files import write_all
from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import (
    CONTAINER_OPTIONS,
    bundle_path,
    caller_path,
    container_options,
    take_bundle_argument,
)
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.features import features
from ociruntime.runtime.lifecycle.plan import plan, plan_text, plan_values
from ociruntime.runtime.spec.default_config import default_config


def run_spec(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Write a default config.json to the bundle, or to ``--file``; return 0."""
    config = default_config(arguments.flag("rootless"), os.geteuid(), os.getegid())
    text = dump(config, 4) + "\n"
    if file := caller_path(arguments, "file"):
        write_file(file, text, os.O_TRUNC)
    else:
        write_file(bundle_path(arguments) + "/config.json", text, os.O_EXCL)
    return 0


def write_file(path: str, text: str, how: int) -> None:
    """Write ``text`` to the file ``path``.

    ``how`` is O_EXCL (the file must not exist) or O_TRUNC (overwrite it).  Removes a newly created
    file if writing fails.  Raises RuntimeFailure and HostError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | how
    try:
        fd = os.open(path, flags, 0o666)
    except FileExistsError:
        raise RuntimeFailure(
            f'create "{path}": file already exists', "remove it first, or use --file"
        ) from None
    except OSError as error:
        raise HostError(f'create "{path}"', error) from None
    try:
        write_all(fd, text.encode())
    except OSError as error:
        if how == os.O_EXCL:
            os.unlink(path)
        raise HostError(f'write "{path}"', error) from None
    finally:
        os.close(fd)


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


def run_features(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Print the Features Structure (runtime-spec, features.md) as JSON; return 0.

    Prints no warnings: some callers merge stdout and stderr.
    """
    return write(dump(features(arguments.text("criu")), 2) + "\n")


COMMANDS = (
    Command(
        "spec",
        "create a default config.json",
        run_spec,
        options=(
            Option("bundle", "directory to write to (default: current one)", "DIR", short="b"),
            Option("file", "write to FILE and overwrite it", "FILE", short="f"),
            Option("rootless", "for a rootless container"),
        ),
        details="An existing config.json is never overwritten.",
        examples=(
            (
                "Create a configuration for an unprivileged user",
                "ociruntime spec --rootless --bundle web",
            ),
        ),
    ),
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
    Command(
        "features",
        "print the supported features as JSON",
        run_features,
        details="The document is the Features Structure of the runtime specification.",
        examples=(("List the mount options", "ociruntime features | jq .mountOptions"),),
    ),
)
