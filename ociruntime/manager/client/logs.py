"""``ocictl logs``: print a container's log.

The daemon filters the log lines (manager/api/logs.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write_all
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.options import SINCE, UNTIL
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.since_and_until_options import moment

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
    """Yield (stream, line) for each frame of a log; 1 is standard output, 2 is standard error.

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
