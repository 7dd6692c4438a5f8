"""Read and write a pod's JSON files without importing ``json``, to keep the monitor small."""

from __future__ import annotations

import time
from typing import Any

from ociruntime.base import json_text
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import read_file, replace_file


def parse(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in ``data``; ``what`` names it in errors.

    Raises PodError if ``data`` is not a JSON object.
    """
    try:
        value = json_text.read(data)
    except ValueError:
        raise PodError(f"{what}: invalid JSON") from None
    if not isinstance(value, dict):
        raise PodError(f"{what}: must be a JSON object")
    return value


def read(path: str) -> dict[str, Any]:
    """Return the JSON object in the file at ``path``.

    Raises HostError if the file cannot be read, PodError if it does not contain a JSON object.
    """
    try:
        data = read_file(path)
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    return parse(data, f'read "{path}"')


def text_of(value: object) -> bytes:
    """Return ``value`` as a single line of JSON."""
    return json_text.dump(value).encode()


def replace(path: str, value: object, *, lasting: bool = True) -> None:
    """Replace the file ``path`` atomically with ``value`` as JSON; see ``replace_text``."""
    replace_text(path, text_of(value) + b"\n", lasting=lasting)


def replace_text(path: str, data: bytes, mode: int = 0o640, *, lasting: bool = True) -> None:
    """Replace a file atomically: readers see either the old or the complete new content.

    With ``lasting``, this is also true after a power failure.  Otherwise a power failure may leave
    an empty file, which is acceptable for files that are useless once the pod has ended.  Raises
    HostError.
    """
    try:
        # A fixed name suffices: the monitor's children write these files, but only one at a time.
        replace_file(path, data, mode, lasting=lasting, temporary=f"{path}.new")
    except OSError as error:
        raise HostError(f'write "{path}"', error) from None


def now() -> str:
    """Return the current time in RFC 3339 format, in UTC and with nanoseconds."""
    return time_text(time.time_ns())


def time_text(nanoseconds: int) -> str:
    """Format a time (nanoseconds since the epoch) in RFC 3339 format, in UTC."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"
