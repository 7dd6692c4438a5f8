"""A container's streams: ``attach``, and ``run`` and ``start`` that stay."""

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
    """To the container ``ref``; with ``wait`` from its next start on, before which it is made.

    Raises what ``connection`` does, RuntimeFailure.
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
        wanted = ",".join(streams) or None
        size = window_size(0)  # told at once: what is started next may ask for it
        words = f"{size[0]},{size[1]}" if size else None
        path = container(ref, "attach", streams=wanted, wait=wait, size=words)
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
        """Until the container ends: its exit code; or DETACHED.  Raises RuntimeFailure."""
        return self._session.run()

    def _signal(self, number: int) -> None:
        try:
            self._connection.post(container(self._ref, "kill"), {"signal": str(number)})
        except RuntimeFailure:
            return  # it may have ended: what it has left to read, and its exit code, are to come

    def close(self) -> None:
        """The container goes on without us."""
        self._socket.close()
