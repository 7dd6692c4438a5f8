"""The commands ``image inspect``, ``tag``, ``save``, ``load`` and ``history``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.formats import ago, aligned
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import FAILED
from ociruntime.manager.client.docker_inspect import image
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.inspection import show_each
from ociruntime.manager.client.new_container import absolute_image
from ociruntime.manager.client.options import FORMAT, INSPECT_FORMAT, NO_LEGEND
from ociruntime.manager.client.ps import SHORT_ID, seconds
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

_TITLES = ["IMAGE", "CREATED", "CREATED BY", "SIZE", "COMMENT"]
_FIELD_TITLES = {
    "ID": "IMAGE",
    "CreatedSince": "CREATED",
    "CreatedAt": "CREATED AT",
    "CreatedBy": "CREATED BY",
}
_LONGEST_COMMAND = 45  # characters
_MISSING = "<missing>"  # ID of all build steps but the last, which has the image's ID
_PIECE = 1 << 16


def image_details(connection: Connection, text: str) -> dict[str, Any]:
    """Return an image's settings, layers and history, as ocid describes them.

    Raises DaemonError if there is no such image, HostError if ocid cannot be reached.
    """
    details: dict[str, Any] = connection.get(
        resource("images", absolute_image(text, os.getcwd()), "json")
    )
    return details


def run_image_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print images as JSON; return 1 if an image is not found.  Raises UsageError."""
    return show_each(arguments, lambda text: image(image_details(connection, text)))


def run_tag(connection: Connection, arguments: Arguments) -> int:
    """Give an image an additional name; print nothing."""
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
    """Send GET ``path`` to ocid; write the answer's body to the file ``output``.

    If ``output`` is "", writes to standard output.  After a failure, no partial file remains.
    Returns the exit status of ``command``.  Raises UsageError if standard output is a terminal,
    HostError if the file cannot be written, RuntimeFailure if ocid fails.
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
        raise HostError(
            f'{command}: write "{output}"' if output else f"{command}: write to standard output",
            error,
        ) from None
    finally:
        answer.close()
    return 0


def _write_file(path: str, pieces: Iterator[bytes]) -> None:
    """Write ``pieces`` to a temporary file, then rename it to ``path``.  Raises OSError."""
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
    """Load images from an archive (``--input`` or standard input); print their names.

    Raises UsageError if standard input is a terminal.
    """
    path = arguments.text("input")
    if path:
        return _load(connection, os.path.abspath(path), arguments)
    if sys.stdin.isatty():
        raise UsageError("load: standard input is a terminal", "use -i FILE, or redirect it")
    import shutil
    import tempfile

    # ocid is on the same host and reads archives by path, so it needs a file.
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


def run_history(connection: Connection, arguments: Arguments) -> int:
    """Print the build steps of an image, newest first.  Raises UsageError."""
    details = image_details(connection, arguments.positional[0])
    full, human = arguments.flag("no-trunc"), arguments.flags.get("human", True)
    rows = steps(details, time.time(), full=full, human=human)
    if form := chosen(arguments):
        shown = details["history"][::-1] if form == "json" else rows
        return write(formatted(shown, form, _FIELD_TITLES))
    if arguments.flag("quiet"):
        return write("".join(f"{row['ID']}\n" for row in rows))
    fields = ("ID", "CreatedSince" if human else "CreatedAt", "CreatedBy", "Size", "Comment")
    cells = [[row[name] for name in fields] for row in rows]
    return write(aligned(cells if arguments.flag("no-legend") else [_TITLES, *cells], gap=3))


def steps(details: dict[str, Any], now: float, *, full: bool, human: bool) -> list[Shape]:
    """Return the build steps of an image, newest first, with the field names of docker.

    ``details`` is the result of ``image_details``.  ``now`` is the current time in seconds since
    the epoch.  With ``full``, IDs and commands are not truncated; with ``human``, sizes have units.
    """
    whole = str(details["id"])
    image_id = whole if full else whole.partition(":")[2][:SHORT_ID]
    rows = []
    for number, step in enumerate(reversed(details["history"])):
        command = plain(step["created_by"])
        if not full and len(command) > _LONGEST_COMMAND:
            command = command[: _LONGEST_COMMAND - 1] + "…"
        members = {
            "ID": _MISSING if number else image_id,
            "CreatedSince": _since(step["created"], now),
            "CreatedAt": plain(step["created"]),
            "CreatedBy": command,
            "Size": amount(step["size"]) if human else str(step["size"]),
            "Comment": plain(step["comment"]),
        }
        rows.append(Shape(members, step))
    return rows


def _since(created: str, now: float) -> str:
    try:
        moment = seconds(created)
    except (ValueError, OverflowError):
        return ""  # the image's builder has written an invalid time
    return "" if moment is None else ago(moment, now)


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
            Option("quiet", short="q"),  # without effect, because no progress is printed
            *refused("load"),
        ),
        details=(
            "Reads archives of `docker save`, `podman save` and `ocictl save`. A name that\n"
            "another image has moves to the loaded image."
        ),
    ),
    Command(
        "history IMAGE",
        "show how an image was built",
        run_history,
        options=(
            Option("quiet", "print only IDs", short="q"),
            Option("no-trunc", "do not truncate commands and IDs"),
            Option("human", "print sizes and times for people (default: true)", short="H"),
            NO_LEGEND,
            FORMAT,
            *refused("history"),
        ),
        details=(
            "Prints the newest step first, with the size of its layer as stored. Only the\n"
            "newest step has the ID of an image."
        ),
        examples=(("Print the commands", "ocictl history --format '{{.CreatedBy}}' web"),),
    ),
)
