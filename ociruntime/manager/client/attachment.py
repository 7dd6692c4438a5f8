"""The attachment of ``attach``, ``run`` and ``start --attach`` to a container's streams."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.terminal import window_size
from ociruntime.manager.client.connection import container
from ociruntime.manager.client.session import DETACHED, Session, parse
from ociruntime.manager.client.websocket import open_websocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.manager.client.connection import Connection
    from ociruntime.manager.client.websocket import WebSocket

__all__ = ["DETACHED", "Attachment"]


class Attachment:
    """An attachment to the container ``ref``; with ``wait``, made before its next start.

    Raises the errors of ``connection``, RuntimeFailure.
    """

    def __init__(
        self,
        connection: Connection,
        ref: str,
        *,
        streams: tuple[str, ...] = (),
        wait: bool = False,
        keys: bytes = b"",
    ) -> None:
        self._connection = connection
        self._ref = ref
        names = ",".join(streams) or None
        size = window_size(0)  # in the request, so that the program sees it from its start
        rows_columns = f"{size[0]},{size[1]}" if size else None
        path = container(ref, "attach", streams=names, wait=wait, size=rows_columns)
        self._socket: WebSocket = open_websocket(connection, path)
        messages: list[tuple[int, bytes]] = []
        while not messages:
            messages = self._socket.receive()
        answer = parse(messages[0][1])
        self._session = Session(
            self._socket,
            tty=bool(answer.get("tty")),
            with_input="stdin" in answer.get("streams", ()),
            keys=keys,
            early=messages[1:],
        )
        self._session.on_signal = self._signal

    def run(self) -> int:
        """Relay until the container exits; return its exit code, or DETACHED.

        Raises RuntimeFailure.
        """
        return self._session.run()

    def _signal(self, number: int) -> None:
        try:
            self._connection.post(container(self._ref, "kill"), {"signal": str(number)})
        except RuntimeFailure:
            return  # it may have exited: the remaining output and the exit code still arrive

    def close(self) -> None:
        """Close the connection; the container keeps running."""
        self._socket.close()
