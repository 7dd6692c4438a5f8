"""Commands on single images and archives: ``image inspect``, ``tag``, ``save``, ``load``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import FAILED
from ociruntime.manager.client.docker_inspect import image
from ociruntime.manager.client.inspection import show_each
from ociruntime.manager.client.new_container import absolute_image
from ociruntime.manager.client.options import INSPECT_FORMAT
from ociruntime.manager.client.refused_options import refused

_PIECE = 1 << 16


def image_details(connection: Connection, text: str) -> dict[str, Any]:
    """Return an image's settings, layers and history from ocid.  Raises DaemonError, HostError."""
    details: dict[str, Any] = connection.get(
        resource("images", absolute_image(text, os.getcwd()), "json")
    )
    return details


def run_image_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print details of images as JSON; return 1 if an image was not found.  Raises UsageError."""
    return show_each(arguments, lambda text: image(image_details(connection, text)))


def run_tag(connection: Connection, arguments: Arguments) -> int:
    """Add another name to an image; print nothing."""
    text, name = arguments.positional
    path = resource("images", absolute_image(text, os.getcwd()), "tag")
    connection.post(path, {"name": name})
    return 0


def run_save(connection: Connection, arguments: Arguments) -> int:
    """Write an image as a tar archive to a file or standard output.  Raises UsageError."""
    ref = absolute_image(arguments.positional[0], os.getcwd())
    path = resource("images", ref, "archive")
    return save_stream("save", connection, path, arguments.text("output"))


def save_stream(command: str, connection: Connection, path: str, output: str) -> int:
    """Write ocid's answer to GET ``path`` to the file ``output``, or to standard output if "".

    On failure, no partial file remains.  Returns the exit status.  Raises UsageError if standard
    output is a terminal, RuntimeFailure.
    """
    if not output and sys.stdout.isatty():
        raise UsageError(f"{command}: standard output is a terminal", "use -o FILE, or redirect it")
    answer = connection.open("GET", path)
    try:
        if output:
            _write_file(output, answer.pieces())
        else:
            for piece in answer.pieces():
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        return FAILED
    except OSError as error:
        raise HostError(f"{command}: write {output or 'to standard output'}", error) from None
    finally:
        answer.close()
    return 0


def _write_file(path: str, pieces: Iterator[bytes]) -> None:
    """Write a file under a temporary name, then rename it.  Raises OSError."""
    partial = f"{path}.partial-{os.getpid()}"
    try:
        with open(partial, "xb") as file:
            for piece in pieces:
                file.write(piece)
        os.rename(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def run_load(connection: Connection, arguments: Arguments) -> int:
    """Load the images of an archive (``--input`` or standard input); print their names."""
    path = arguments.text("input")
    if path:
        return _load(connection, os.path.abspath(path), arguments)
    if sys.stdin.isatty():
        raise UsageError("load: standard input is a terminal", "use -i FILE, or redirect it")
    import shutil
    import tempfile

    # The daemon reads the file by its path; it is on the same host.
    with tempfile.NamedTemporaryFile(prefix="ocictl-load-", suffix=".tar") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file, _PIECE)
            file.flush()
        except OSError as error:
            raise HostError("copy standard input to a temporary file", error) from None
        return _load(connection, file.name, arguments)


def _load(connection: Connection, path: str, arguments: Arguments) -> int:
    body = {"path": path, "insecure": arguments.list("insecure")}
    loaded = connection.post(resource("images", "load"), body)
    lines = [name for image in loaded for name in image["names"] or [image["id"]]]
    return write_lines(f"Loaded image: {line}" for line in lines)


COMMANDS = (
    Command(
        "image inspect IMAGE...",
        "show details of images as JSON",
        run_image_inspect,
        options=(INSPECT_FORMAT, *refused("image inspect")),
        examples=(
            (
                "Print the environment",
                "ocictl image inspect --format '{{json .Config.Env}}' busybox",
            ),
        ),
    ),
    Command(
        "tag IMAGE NAME",
        "give an image another name",
        run_tag,
        details="If another image has this name, the name moves to IMAGE.",
        examples=(("Name an image by its version", "ocictl tag web localhost:5000/web:1.2"),),
    ),
    Command(
        "save IMAGE",
        "write an image to an archive",
        run_save,
        options=(
            Option("output", "write to FILE, not to standard output", "FILE", short="o"),
            *refused("save"),
        ),
        details=(
            "Writes a tar archive with an OCI image layout, which `docker load`,\n"
            "`podman load` and `ocictl load` read."
        ),
        examples=(("Copy an image to another machine", "ocictl save web | ssh host ocictl load"),),
    ),
    Command(
        "load",
        "load images from an archive",
        run_load,
        options=(
            Option("input", "read from FILE, not from standard input", "FILE", short="i"),
            Option("insecure", "skip a check: image, tls, http", "CHECK", kind="list"),
            Option("quiet", short="q"),  # nothing else is printed
            *refused("load"),
        ),
        details=(
            "Reads archives of `docker save`, `podman save` and `ocictl save`. A name that\n"
            "another image has moves to the loaded image."
        ),
    ),
)
