"""`ociruntime spec`: write a default config.json."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.files import write_all
from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import bundle_path, caller_path
from ociruntime.runtime.lifecycle.context import Context
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
    file if writing fails.  Raises RuntimeFailure if the file must not exist but does, HostError if
    it cannot be created or written.
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
)
