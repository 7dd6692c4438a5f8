"""The client side of ``attach``: relay this process's streams or terminal to and from an app."""

from __future__ import annotations

import os
import select
import signal
import socket

from ociruntime.base.detach_keys import KeyWatch
from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.files import write_all
from ociruntime.base.terminal import Terminal
from ociruntime.pods.store.control_client import ask_over, connect
from ociruntime.pods.store.pod import Pod

CHUNK = 32768  # bytes of input to read and send at once
LARGEST = 1 << 17  # maximum bytes of a message
STREAMS = ("stdin", "stdout", "stderr")
TERMINAL = {"tty": STREAMS, "tty-in": ("stdin",), "tty-out": ("stdout",)}


def parse_mode(text: str) -> list[str]:
    """Parse ``text``, the value of --mode, and return the names of the streams to attach to.

    Returns [] for ``auto``, which means all streams of the app.  Raises UsageError for an unknown
    value.
    """
    if text in ("", "auto"):
        return []
    names = text.split(",")
    if all(word in TERMINAL for word in names):
        return [name for name in STREAMS if any(name in TERMINAL[word] for word in names)]
    if all(word in STREAMS for word in names):
        return [name for name in STREAMS if name in names]
    raise UsageError(
        f'--mode: invalid value "{text}"',
        "use auto, list, tty, or a comma-separated list such as stdin,stdout or tty-in,tty-out",
    )


def attach(pod: Pod, app: str, streams: list[str], keys: bytes, *, wait: bool = False) -> int:
    """Attach this process's standard streams to an app until the app exits or the user detaches.

    Returns the app's exit code, or 0 if the user detached or the monitor closed the connection.
    ``streams`` are the names of the app's streams, or [] for all.  ``keys`` is the sequence of
    bytes with which the user detaches.  With ``wait``, if the app is not running, attaches to it at
    its next start.  Raises PodError if the monitor refuses the request, HostError if the connection
    fails.
    """
    sock = connect(pod)
    terminal: Terminal | None = None
    try:
        answer = ask_over(sock, {"op": "attach", "app": app, "streams": streams, "wait": wait})
        attached = answer["streams"]
        if answer["tty"] and os.isatty(0) and "stdin" in attached:
            from ociruntime.base.terminal import Terminal

            terminal = Terminal(0, owned=False)
            terminal.make_raw()
        client = _Client(sock, terminal, KeyWatch(keys if answer["tty"] else b""))
        return client.run("stdin" in attached)
    except OSError as error:
        raise HostError(f'attach to app "{app}"', error) from None
    finally:
        if terminal is not None:
            terminal.restore()
        sock.close()


class _Client:
    def __init__(self, sock: socket.socket, terminal: Terminal | None, watch: KeyWatch) -> None:
        self._socket = sock
        self._terminal = terminal
        self._watch = watch

    def run(self, with_input: bool) -> int:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        if with_input:
            poll.register(0, select.POLLIN)
        if self._terminal is not None:
            # poll(2) is retried after the signal; the handler sends the new size.
            signal.signal(signal.SIGWINCH, lambda *_: self._send_size())
            self._send_size()
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    if not self._send_input():
                        poll.unregister(0)
                    if self._watch.detaching:
                        if os.isatty(1):
                            os.write(
                                1, b"\r\n"
                            )  # move to a new line: the cursor is behind the app's prompt
                        return 0
                    continue
                code = self._receive()
                if code is not None:
                    return code

    def _send_input(self) -> bool:
        data = os.read(0, CHUNK)
        if not data:
            self._send(b"c")
            return False
        data = self._watch.pass_on(data)
        if data:
            self._send(b"i" + data)
        return True

    def _send_size(self) -> None:
        from ociruntime.base.terminal import window_size

        size = window_size(0)
        if size is not None:
            self._send(b"r%d %d" % size)

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message, socket.MSG_NOSIGNAL)
        except BrokenPipeError:
            pass  # the app has exited; the next read gets its exit code

    def _receive(self) -> int | None:
        """Receive a message from the monitor; write the app's output that it contains.

        Returns the app's exit code if the message contains it, 0 if the monitor has closed the
        connection, otherwise None.
        """
        try:
            message = self._socket.recv(LARGEST)
        except ConnectionResetError:
            message = b""
        if not message:
            return 0
        if message[:1] == b"x":
            return int(message[1:])
        write_all(2 if message[:1] == b"e" else 1, memoryview(message)[1:])
        return None
