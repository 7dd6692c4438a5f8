"""``ocictl logs``: print a container's output."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.manager.client.connection import container
from ociruntime.manager.client.points_in_time import moment
from ociruntime.manager.client.session import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.connection import Connection

FRAMES = "application/vnd.ociruntime.frames"
HEAD = 5  # bytes of a frame's header: stream and length


def run(connection: Connection, arguments: Arguments) -> int:
    """Print the logs; with ``--follow``, until the container exits.

    Returns 1 if our output was closed.  Raises RuntimeFailure.
    """
    tail = arguments.number("tail", -1)
    if tail < 0 and "tail" in arguments.numbers:
        raise UsageError("--tail: must be a number of lines, 0 or more")
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
    """Print each line to the stream that the container wrote it to.

    Returns False if our output was closed.  Raises RuntimeFailure.
    """
    answer = connection.open("GET", path, None, {"Accept": FRAMES, "Connection": "close"})
    try:
        return all(write(stream, line) for stream, line in frames(answer.pieces()))
    finally:
        answer.close()


def frames(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield ``(1 or 2, line)`` for each frame.  Raises RuntimeFailure if the last is truncated."""
    held = b""
    for piece in pieces:
        held += piece
        while len(held) >= HEAD:
            end = HEAD + int.from_bytes(held[1:HEAD], "big")
            if len(held) < end:
                break
            yield held[0], held[HEAD:end]
            held = held[end:]
    if held:
        raise RuntimeFailure("read the logs: ocid closed the connection in the middle of a line")
