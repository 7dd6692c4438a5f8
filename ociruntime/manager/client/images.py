"""The commands on images, such as ``images``, ``pull``, ``rmi``, ``tag``, ``save``, ``load``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import ago, aligned, date
from ociruntime.manager.client import docker_inspect
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import FAILED, each, is_confirmed
from ociruntime.manager.client.filter_option import as_lists
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.inspect import show_each
from ociruntime.manager.client.new_container import absolute_image
from ociruntime.manager.client.options import (
    FILTER,
    FORCE,
    FORMAT,
    INSPECT_FORMAT,
    NO_LEGEND,
    QUIET,
)
from ociruntime.manager.client.ps import SHORT_ID, seconds
from ociruntime.manager.client.pull_progress import pulled
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

_TITLES = ["REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"]
_NONE = "<none>"
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_WITHOUT_TAG = ("dir", "tar", "aci", "file")  # transports whose path may contain a colon
_HISTORY_TITLES = ["IMAGE", "CREATED", "CREATED BY", "SIZE", "COMMENT"]
_HISTORY_FIELD_TITLES = {
    "ID": "IMAGE",
    "CreatedSince": "CREATED",
    "CreatedAt": "CREATED AT",
    "CreatedBy": "CREATED BY",
}
_LONGEST_COMMAND = 45  # characters
_MISSING = "<missing>"  # ID of all build steps but the last, which has the image's ID
_PIECE = 1 << 16
UNNAMED = "images without a name"
UNUSED = "images that no container uses"


def run_images(connection: Connection, arguments: Arguments) -> int:
    """Print a table of the images, with a row for each name.

    Raises UsageError for an invalid option.
    """
    patterns = arguments.positional
    filters = as_lists(arguments.list("filter"), ("reference", "dangling"))
    images = matching(connection.get(resource("images")), patterns, filters)
    form = chosen(arguments)
    if form == "json":
        return write(formatted(images, form))
    full = arguments.flag("no-trunc")
    for image in images:
        if not full:
            image["id"] = image["id"].partition(":")[2][:SHORT_ID]
        image["created"] = ago(image["import_time"], time.time())
        image["repository"], image["tag"] = split_name(image["name"])
    if form:
        return write(formatted(list(map(shape, images)), form, _FIELD_TITLES))
    if arguments.flag("quiet"):
        ids = dict.fromkeys(image["id"] for image in images)
        return write("".join(f"{image_id}\n" for image_id in ids))
    rows = [] if arguments.flag("no-legend") else [[*_TITLES[:2], "DIGEST", *_TITLES[2:]]]
    for image in images:
        names = [plain(image["repository"]), plain(image["tag"]), plain(digest_of(image["name"]))]
        rows.append([*names, image["id"], image["created"], amount(image["size"])])
    if not arguments.flag("digests"):
        rows = [[*row[:2], *row[3:]] for row in rows]
    return write(aligned(rows, gap=3))


def matching(
    images: list[dict[str, Any]], patterns: list[str], filters: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the images that match one of ``patterns`` (if there are any) and each of ``filters``.

    Raises UsageError for an invalid value of a filter.
    """
    for value in filters.get("dangling", ()):
        if value not in _BOOLEANS:
            raise UsageError(f'--filter: dangling must be true or false, not "{value}"')
        images = [image for image in images if (image["name"] == "") == _BOOLEANS[value]]
    for group in (patterns, filters.get("reference", ())):
        if group:
            images = [one for one in images if any(is_named(one["name"], each) for each in group)]
    return images


def is_named(name: str, pattern: str) -> bool:
    """Return whether an image's name, or its short form, matches ``pattern``, as in docker.

    The short form lacks ``docker.io/library/``.  A pattern without a tag matches all tags.  ``*``
    does not match a slash.
    """
    from fnmatch import fnmatchcase

    repository, tag = split_name(name)
    short = repository.removeprefix("docker.io/").removeprefix("library/")
    for form in (repository, short, f"{repository}:{tag}", f"{short}:{tag}"):
        parts, patterns = form.split("/"), pattern.split("/")
        if len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns)):
            return True
    return False


def digest_of(name: str) -> str:
    """Return the digest in an image's name; ``<none>`` if it has none."""
    return name.partition("@")[2] or _NONE


# Field of a template -> title of its column, as in docker.
_FIELD_TITLES = {"ID": "IMAGE ID", "CreatedSince": "CREATED", "CreatedAt": "CREATED AT"}


def shape(shown: dict[str, Any]) -> Shape:
    """Return an image as data for ``--format``, with the field names of docker and of ocid.

    ``shown`` is the image's JSON with values formatted for ``images``.
    """
    name = shown["name"]
    members = {
        "CreatedAt": date(shown["import_time"]),
        "CreatedSince": shown["created"],
        "Digest": digest_of(name),
        "ID": shown["id"],
        "Repository": shown["repository"],
        "Size": amount(shown["size"]),
        "Tag": shown["tag"],
    }
    return Shape(members, shown)


def split_name(name: str) -> tuple[str, str]:
    """Split an image's name into (repository, tag); ``<none>`` for a missing part."""
    repository = name.partition("@")[0] if "://" not in name else name
    if not repository:
        return _NONE, _NONE
    if repository.partition(":")[0] in _WITHOUT_TAG:
        return name, _NONE
    path, colon, tag = repository.rpartition(":")
    if not colon or "/" in tag or not path:
        return repository, _NONE
    return path, tag or _NONE


def run_pull(connection: Connection, arguments: Arguments) -> int:
    """Pull images and print their ids, in the order of the arguments."""
    policy = arguments.text("pull", "always")
    status = 0
    for text in arguments.positional:
        body: dict[str, object] = {
            "image": absolute_image(text, os.getcwd()),
            "pull_policy": policy,
            "insecure": arguments.list("insecure"),
            "platform": arguments.text("platform") or None,
        }
        image_id = pulled(connection, body, text, quiet=arguments.flag("quiet"))
        status = write(f"{image_id}\n")
    return status


def run_rmi(connection: Connection, arguments: Arguments) -> int:
    """Remove images and print the given names or ids."""
    force = arguments.flag("force")

    def remove(ref: str) -> None:
        connection.delete(resource("images", absolute_image(ref, os.getcwd()), force=force))

    return each(arguments.positional, remove)


def image_details(connection: Connection, text: str) -> dict[str, Any]:
    """Return an image's settings, layers and history, as ocid describes them.

    Raises DaemonError if there is no such image, HostError if ocid cannot be reached.
    """
    details: dict[str, Any] = connection.get(
        resource("images", absolute_image(text, os.getcwd()), "json")
    )
    return details


def run_image_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print images as JSON; return 1 if an image is not found.

    Raises UsageError for an invalid option.
    """
    return show_each(arguments, lambda text: docker_inspect.image(image_details(connection, text)))


def run_tag(connection: Connection, arguments: Arguments) -> int:
    """Give an image an additional name; print nothing."""
    text, name = arguments.positional
    path = resource("images", absolute_image(text, os.getcwd()), "tag")
    connection.post(path, {"name": name})
    return 0


def run_save(connection: Connection, arguments: Arguments) -> int:
    """Write an image as a tar archive to a file or standard output.

    Raises UsageError if standard output is a terminal.
    """
    ref = absolute_image(arguments.positional[0], os.getcwd())
    path = resource("images", ref, "archive")
    return save_stream("save", connection, path, arguments.text("output"))


def save_stream(command: str, connection: Connection, path: str, output: str) -> int:
    """Send GET ``path`` to ocid; write the answer's body to the file ``output``.

    If ``output`` is "", writes to standard output.  After a failure, no partial file remains.
    Returns the exit status: 0, or 1 if standard output is closed.  Error messages begin with
    ``command``, the name of the command.  Raises UsageError if standard output is a terminal,
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
    """Write ``pieces`` to a temporary file, then rename it to ``path``.

    Removes the temporary file after an error.  Raises OSError if it cannot be written or renamed,
    and the errors of ``pieces``.
    """
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
    """Print the build steps of an image, newest first.

    Raises UsageError for an invalid ``--format``.
    """
    details = image_details(connection, arguments.positional[0])
    full, human = arguments.flag("no-trunc"), arguments.flags.get("human", True)
    rows = steps(details, time.time(), full=full, human=human)
    if form := chosen(arguments):
        shown = details["history"][::-1] if form == "json" else rows
        return write(formatted(shown, form, _HISTORY_FIELD_TITLES))
    if arguments.flag("quiet"):
        return write("".join(f"{row['ID']}\n" for row in rows))
    fields = ("ID", "CreatedSince" if human else "CreatedAt", "CreatedBy", "Size", "Comment")
    cells = [[row[name] for name in fields] for row in rows]
    titles = [] if arguments.flag("no-legend") else [_HISTORY_TITLES]
    return write(aligned([*titles, *cells], gap=3))


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


def run_image_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove unused images; print their ids and the freed disk space."""
    whole = arguments.flag("all")
    if not is_confirmed(arguments, f"Remove all {UNUSED if whole else UNNAMED}?"):
        return 0
    answer = connection.post(resource("images", "prune"), {"all": whole})
    lines = "".join(f"{image_id}\n" for image_id in answer["removed"])
    return write(f"{lines}Total reclaimed space: {amount(answer['freed'])}\n")


_LIST_OPTIONS = (
    QUIET,
    Option("no-trunc", "do not truncate IDs"),
    Option("digests", "show digests"),
    NO_LEGEND,
    FILTER,
    FORMAT,
    Option("all", short="a"),  # no effect: the store has no intermediate images of a build
    *refused("images"),
)
_PULL_OPTIONS = (
    QUIET,
    Option("pull", "pull policy (default: always)", "missing|always|never", kind="choice"),
    Option("platform", "platform of the image (default: the host's)", "linux/ARCH"),
    Option("insecure", "skip a check: image, tls, http", "CHECK", kind="list"),
    *refused("pull"),
)
_REMOVE_OPTIONS = (
    Option("force", "also remove images that containers use", short="f"),
    *refused("rmi"),
)
_LIST_DETAILS = (
    "NAME is a name or a pattern such as 'web*' or 'localhost/*/*'; without a tag,\n"
    "all tags are listed. Filters: reference (a pattern), dangling (true: no name)."
)
_PULL_DETAILS = (
    "Prints the ID of each image, and the progress of each layer on standard error;\n"
    "if that is not a terminal, one line per complete layer. --quiet prints only the\n"
    "ID."
)
_REMOVE_DETAILS = "If an image has several names, only the given name is removed."
COMMANDS = (
    Command(
        "images [NAME]", "list images", run_images, options=_LIST_OPTIONS, details=_LIST_DETAILS
    ),
    Command(
        "pull IMAGE...",
        "download images",
        run_pull,
        options=_PULL_OPTIONS,
        details=_PULL_DETAILS,
        examples=(("Pull from a registry", "ocictl pull quay.io/prometheus/busybox:latest"),),
    ),
    Command(
        "rmi IMAGE...",
        "remove images",
        run_rmi,
        options=_REMOVE_OPTIONS,
        details=_REMOVE_DETAILS,
    ),
    # The same commands under docker's newer names.
    Command(
        "image ls [NAME]", "list images", run_images, options=_LIST_OPTIONS, details=_LIST_DETAILS
    ),
    Command(
        "image pull IMAGE...",
        "download images",
        run_pull,
        options=_PULL_OPTIONS,
        details=_PULL_DETAILS,
    ),
    Command(
        "image rm IMAGE...",
        "remove images",
        run_rmi,
        options=_REMOVE_OPTIONS,
        details=_REMOVE_DETAILS,
    ),
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
            "Reads archives of `docker save`, `podman save` and `ocictl save`. If another\n"
            "image has a name of the loaded image, the name moves to the loaded image."
        ),
    ),
    Command(
        "history IMAGE",
        "show how an image was built",
        run_history,
        options=(
            Option("quiet", "print only IDs", short="q"),
            Option("no-trunc", "do not truncate commands and IDs"),
            Option("human", "human-readable sizes and times (default: true)", short="H"),
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
    Command(
        "image prune",
        "remove unused images without a name",
        run_image_prune,
        options=(
            Option("all", "also remove unused images with a name", short="a"),
            FORCE,
            *refused("image prune"),
        ),
        details=(
            "Keeps images that a container or pod uses, even if it is stopped.\n"
            "`ocipod image gc` also removes interrupted downloads."
        ),
        examples=(("Remove every image that no container uses", "ocictl image prune --all"),),
    ),
)
