"""The commands ``images``, ``pull`` and ``rmi``."""

from __future__ import annotations

import os
import time
from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.formats import ago, aligned, date
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import each
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.new_container import absolute_image
from ociruntime.manager.client.options import FILTER, FORMAT, NO_LEGEND, QUIET
from ociruntime.manager.client.ps import as_lists
from ociruntime.manager.client.pull_progress import pulled
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

_TITLES = ["REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"]
_NONE = "<none>"
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_WITHOUT_TAG = ("dir", "tar", "aci", "file")  # transports whose path may contain a colon
_SHORT_ID = 12  # digits


def run_images(connection: Connection, arguments: Arguments) -> int:
    """Print a table of the images, with a row for each name.  Raises UsageError."""
    patterns = arguments.positional
    filters = as_lists(arguments.list("filter"), ("reference", "dangling"))
    images = matching(connection.get(resource("images")), patterns, filters)
    form = chosen(arguments)
    if form == "json":
        return write(formatted(images, form))
    full = arguments.flag("no-trunc")
    for image in images:
        if not full:
            image["id"] = image["id"].partition(":")[2][:_SHORT_ID]
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
    """Return the images that match one of ``patterns`` (if any) and one value of each filter.

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
    """Return an image as data for templates, with the field names of docker and of ocid."""
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
)
