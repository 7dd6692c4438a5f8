"""Relay the user's streams or terminal to and from a container or a program of ``exec``.

``manager/api/attach.py`` describes the messages.  A ``metered`` session obeys the flow control of
input that ``manager/api/exec_route.py`` describes.  Sending never blocks, because ocid may be
waiting for ocictl to read: both would then wait forever.
"""

from __future__ import annotations

import os
import select

from ociruntime.base.detach_keys import KeyWatch
from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.commandline.output import write_all
from ociruntime.manager.client.connection import refusal
from ociruntime.manager.client.websocket import BINARY, TEXT, WebSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterable
    from typing import Any

    from ociruntime.base.terminal import Terminal
else:
    import _signal

CHUNK = 32768
WAITING = 65536  # unsent bytes above which the relay reads no more input
DETACHED = -1
_OUTPUT_CLOSED = -2
SIGPIPE_STATUS = 128 + _signal.SIGPIPE
PASSED_ON = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT)


class Session:
    """Relay the streams of one program over the WebSocket ``socket``.

    ``keys`` is the key sequence that detaches from a terminal.  ``on_signal`` is called with each
    signal in ``PASSED_ON`` that ocictl receives; if it is None, signals are not handled.  The
    session ends if standard output is closed, as by ``| head``.  If ``passes_sigpipe`` is True, the
    program then gets SIGPIPE.
    """

    def __init__(
        self,
        socket: WebSocket,
        *,
        tty: bool,
        with_input: bool,
        keys: bytes,
        metered: bool = False,
        sized: bool = True,
        early: Iterable[tuple[int, bytes]] = (),
    ) -> None:
        """Create a session; nothing is relayed before ``run`` is called.

        ``early`` contains messages that were received already.  If ``metered``, the session sends
        only as much input as the daemon allows with ``room`` messages.  If ``sized``, the program's
        terminal gets the size of the user's terminal.
        """
        self._socket = socket
        self._early = list(early)
        self._tty = tty
        self._with_input = with_input
        self._metered = metered
        self._sized = tty and sized
        self._room = 0
        self._watch = KeyWatch(keys if tty else b"")
        self._terminal: Terminal | None = None
        self.passes_sigpipe = True
        self.on_signal: Callable[[int], None] | None = self._send_signal

    @property
    def _shares_terminal(self) -> bool:
        return self._tty and self._with_input and os.isatty(0)

    def run(self) -> int:
        """Relay the streams until the program exits; return its exit code.

        Returns DETACHED if the user detaches, SIGPIPE_STATUS if standard output is closed.  Raises
        HostError if the connection fails, RuntimeFailure for an error message from the daemon.
        """
        if self._shares_terminal:
            from ociruntime.base.terminal import Terminal

            self._terminal = Terminal(0, owned=False)
            self._terminal.make_raw()
        if self._sized and os.isatty(0):
            _signal.signal(_signal.SIGWINCH, lambda *_: self._send_size())
            self._send_size()
        awake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        passed_on = PASSED_ON if self.on_signal is not None else ()
        for number in passed_on:
            _signal.signal(number, self._handle_signal)
        try:
            code = self._relay(awake)
        except OSError as error:
            raise HostError("relay the container's streams", error) from None
        finally:
            if self._terminal is not None:
                self._terminal.restore()
            for number in passed_on:
                _signal.signal(number, _signal.SIG_DFL)
            _signal.set_wakeup_fd(before)
            os.close(awake)
            os.close(waker)
        if code == DETACHED and os.isatty(1):
            write_all(1, b"\n")  # move to a new line: the cursor is behind the program's prompt
        return SIGPIPE_STATUS if code == _OUTPUT_CLOSED else code

    def _relay(self, awake: int) -> int:
        """Relay the streams in a poll(2) loop until the program exits; return its exit code.

        Returns DETACHED if the user detaches, ``_OUTPUT_CLOSED`` if standard output is closed.
        ``awake`` is a descriptor that becomes readable when a signal has been handled.
        """
        ours = self._socket.fileno()
        code = self._take(self._early)
        while code is None:
            poll = select.poll()
            poll.register(ours, select.POLLIN | (select.POLLOUT if self._socket.pending else 0))
            poll.register(awake, select.POLLIN)
            if self._takes_input:
                poll.register(0, select.POLLIN)
            events = dict(poll.poll())
            if awake in events:
                os.read(awake, CHUNK)
            if events.get(ours, 0) & select.POLLOUT:
                self._socket.flush()
            if events.get(ours, 0) & ~select.POLLOUT:
                code = self._take(self._socket.receive())
            elif 0 in events:
                self._send_input()
            if self._watch.detaching:
                return DETACHED
        return code

    @property
    def _takes_input(self) -> bool:
        if not self._with_input or self._socket.pending >= WAITING:
            return False
        return not self._metered or self._room > 0

    def _send_input(self) -> None:
        data = os.read(0, min(CHUNK, self._room) if self._metered else CHUNK)
        if not data:
            self._send({"close": "stdin"})
            self._with_input = False
            return
        data = self._watch.pass_on(data)
        if data:
            self._room -= len(data)
            self._socket.send(BINARY, b"\0" + data)

    def _send(self, message: dict[str, Any]) -> None:
        import json

        self._socket.send(TEXT, json.dumps(message).encode())

    def _handle_signal(self, number: int, frame: object) -> None:
        del frame
        if self.on_signal is not None:
            self.on_signal(number)

    def _send_signal(self, number: int) -> None:
        self._send({"signal": number})

    def _send_size(self) -> None:
        from ociruntime.base.terminal import window_size

        size = window_size(0)
        if size is not None:
            self._send({"resize": size})

    def _take(self, messages: Iterable[tuple[int, bytes]]) -> int | None:
        """Handle messages from the daemon; return the exit code that they contain, or None.

        Raises DaemonError for an error message, RuntimeFailure if the daemon closes the connection.
        """
        for kind, data in messages:
            if kind != TEXT:
                if not write_all(2 if data[:1] == b"\2" else 1, data[1:]):
                    if self.passes_sigpipe and self.on_signal is not None:
                        self.on_signal(_signal.SIGPIPE)
                    return _OUTPUT_CLOSED
                continue
            message = parse(data)
            if "error" in message:
                raise refusal(0, data)
            self._room += int(message.get("room", 0))
            if "exit_code" in message:
                return int(message["exit_code"])
        if self._socket.is_closed:
            raise RuntimeFailure(
                "relay the container's streams: ocid sent no exit code", "see ocid's log"
            )
        return None


def parse(data: bytes) -> dict[str, Any]:
    """Parse a text message from the daemon.

    Raises RuntimeFailure if it is not a JSON object.
    """
    import json

    try:
        message = json.loads(data)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise RuntimeFailure("read a message from ocid: not a JSON object")
    return message
