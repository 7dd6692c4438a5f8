"""``ocictl logs``: print a container's log; also parses the times of --since and --until.

The daemon filters the log lines (manager/api/logs_and_events.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.durations import interval
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write_all
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.options import SINCE, UNTIL
from ociruntime.manager.client.refused_options import refused


def moment(text: str, option: str, now: float | None = None) -> str | None:
    """Convert ``text``, a value of ``--since`` or ``--until``, to RFC 3339; None for "".

    ``text`` is a date (local time, unless it has a zone), seconds since the epoch, or a duration
    before ``now`` (default: the current time).  Raises UsageError for an invalid time.
    """
    if not text:
        return None
    if text.replace(".", "", 1).isdecimal():
        return _rfc3339(float(text))
    if text[:4].isdecimal() and "-" in text[4:5]:
        return _parse_date(text, option)
    if text in ("0s", "0m", "0h"):  # in docker: now
        return _rfc3339(time.time() if now is None else now)
    try:
        return _rfc3339((time.time() if now is None else now) - interval(text, option))
    except UsageError:
        raise _wrong(text, option) from None


def _parse_date(text: str, option: str) -> str:
    from datetime import datetime

    try:
        time_read = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(text, option) from None
    return _rfc3339(time_read.timestamp())  # a time without a zone is local time


def _rfc3339(seconds: float) -> str:
    try:
        whole, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{microseconds:06d}+00:00"
    except (OverflowError, ValueError, OSError):
        raise UsageError(
            f"invalid time: {seconds} seconds since 1970-01-01 is out of range"
        ) from None


def _wrong(text: str, option: str) -> UsageError:
    return UsageError(
        f'--{option}: invalid time "{text}"',
        "use 10m, 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970",
    )


FRAMES = "application/vnd.ociruntime.frames"
HEAD = 5  # bytes of a frame's header: stream and length


def run_logs(connection: Connection, arguments: Arguments) -> int:
    """Print a container's log; with ``--follow``, also new lines until the container exits.

    Returns 1 if standard output or standard error is closed.  Raises UsageError for an invalid
    time, and the errors of ``Connection``.
    """
    tail = arguments.number("tail", -1)
    path = container(
        arguments.positional[0],
        "logs",
        follow=arguments.flag("follow"),
        timestamps=arguments.flag("timestamps"),
        tail=tail if tail >= 0 else None,
        since=moment(arguments.text("since"), "since"),
        until=moment(arguments.text("until"), "until"),
    )
    return 0 if print_logs(connection, path) else 1


def print_logs(connection: Connection, path: str) -> bool:
    """Print the log at the API path ``path``, each line to the stream that it was written to.

    Returns False if standard output or standard error is closed.  Raises the errors of
    ``Connection``.
    """
    answer = connection.open("GET", path, None, {"Accept": FRAMES, "Connection": "close"})
    try:
        return all(write_all(stream, line) for stream, line in frames(answer.pieces()))
    finally:
        answer.close()


def frames(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (1 for standard output or 2 for standard error, line) for each frame of a log.

    Raises RuntimeFailure if the last frame is truncated.
    """
    buffer = b""
    for piece in pieces:
        buffer += piece
        while len(buffer) >= HEAD:
            end = HEAD + int.from_bytes(buffer[1:HEAD], "big")
            if len(buffer) < end:
                break
            yield buffer[0], buffer[HEAD:end]
            buffer = buffer[end:]
    if buffer:
        raise RuntimeFailure("read the logs: ocid closed the connection within a line")


COMMANDS = (
    Command(
        "logs CONTAINER",
        "print the logs of a container",
        run_logs,
        options=(
            Option("follow", "follow the log output", short="f"),
            Option("tail", "show only the last N lines", "N", kind="count", short="n"),
            Option("timestamps", "show timestamps", short="t"),
            SINCE,
            UNTIL,
            *refused("logs"),
        ),
        details="Prints the container's standard error to standard error.",
        examples=(("Show the last 20 lines and follow", "ocictl logs --tail 20 --follow web"),),
    ),
)
