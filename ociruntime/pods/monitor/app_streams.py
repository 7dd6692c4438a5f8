"""An app's standard streams: pipes or a terminal, whose other ends the monitor holds.

The monitor copies output to the log, to attached clients and, if the pod runs in the foreground, to
its own stdout and stderr; a slow reader does not block the app.  Input is buffered until the app
reads it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file
from ociruntime.pods.loop.control_socket import listen
from ociruntime.pods.loop.event_loop import READABLE, WRITABLE, Loop

Sink = Callable[[str, bytes], None]  # "stdout" or "stderr", and a chunk of output


CHUNK = 32768
INPUT_LIMIT = 65536  # bytes of input to buffer before its writer is paused
PIPE_CAPACITY = 1 << 20  # maximum capacity of a pipe, unless raised with CAP_SYS_RESOURCE
HANGUP_POLL_INTERVAL = 0.1  # seconds between polls of a terminal that no process has open


class AppStreams:
    """The standard streams of an app, from its start to its exit.

    ``app_ends`` are the descriptors that become the app's stdin, stdout and stderr, -1 for
    /dev/null.  Output is passed to each function in ``sinks``, as (stream's name, bytes).  Each
    function in ``on_room`` is called when the input buffer has room again.
    """

    __slots__ = (
        *("_closing", "_app_ends_closed", "_input", "_loop", "_pending", "_readers", "_terminal"),
        *("app_ends", "on_room", "sinks"),
    )

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._readers: dict[int, str] = {}
        self._input = -1
        self._pending = b""
        self._closing = False
        self._app_ends_closed = False
        self._terminal = -1
        self.sinks: list[Sink] = []
        self.on_room: list[Callable[[], None]] = []
        self.app_ends = [-1, -1, -1]

    def make(self, kinds: dict[str, str], terminal: bool) -> None:
        """Create pipes for the app's streams; do nothing for an app with a ``terminal``.

        ``kinds`` is the object ``streams`` in the manifest: {stream name: "stream", "null",
        "interactive" or "log"}.  An interactive app without a terminal gets the monitor's own
        standard streams.  Output is read only after ``read`` is called.  Raises HostError if a pipe
        cannot be created.
        """
        if terminal:
            return
        if kinds.get("stdin") == "interactive":
            self.app_ends = [os.dup(fd) for fd in (0, 1, 2)]
            return
        try:
            if kinds.get("stdin") == "stream":
                self.app_ends[0], self._input = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(self._input, False)
            for number, name in ((1, "stdout"), (2, "stderr")):
                if kinds.get(name) != "null":
                    self._make_reader(number, name)
        except OSError as error:
            self.close()
            raise HostError("create pipes for the streams of an app", error) from None

    def _make_reader(self, number: int, name: str) -> None:
        reader, self.app_ends[number] = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._readers[reader] = name

    def read(self) -> None:
        """Start reading the app's output.

        Call this once the runtime's ``create`` has succeeded, because ``create`` writes its error
        messages to the same stdout and stderr.
        """
        for reader in self._readers:
            self._watch(reader)

    def _watch(self, reader: int) -> None:
        self._loop.watch(reader, READABLE, lambda _: self._read_ready(reader))

    @property
    def is_quiet(self) -> bool:
        """Return whether the app's container has been created and no input for it is buffered."""
        return self._app_ends_closed and not self._pending

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the streams as a JSON object, for the monitor's hibernation.

        It is {"readers": [[descriptor, stream name]], "input": descriptor, "terminal": descriptor
        or -1}.
        """
        readers = [list(reader) for reader in self._readers.items()]
        return {"readers": readers, "input": self._input, "terminal": self._terminal}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Take over the descriptors in ``snapshot``, a result of the method ``snapshot``."""
        self._app_ends_closed = True
        self._readers = dict(snapshot["readers"])
        self._input, self._terminal = snapshot["input"], snapshot["terminal"]
        for reader in self._readers:
            if reader != self._terminal:
                self._watch(reader)
        self._watch_terminal()

    def close_app_ends(self) -> None:
        """Close ``app_ends`` in the monitor, so that it detects when the app closes its streams."""
        if not self._app_ends_closed:
            self._app_ends_closed = True
            for fd in self.app_ends:
                if fd >= 0:
                    os.close(fd)

    def use_terminal(self, master: int) -> None:
        """Use the terminal whose master is the descriptor ``master`` for input and output."""
        os.set_blocking(master, False)
        self._terminal = self._input = master
        self._readers[master] = "stdout"
        self._watch_terminal()

    @property
    def terminal(self) -> int:
        """The descriptor of the master of the app's terminal, or -1 if the app has no terminal."""
        return self._terminal

    @property
    def has_terminal(self) -> bool:
        return self._terminal >= 0

    @property
    def has_input(self) -> bool:
        return self._input >= 0

    def has_output(self, name: str) -> bool:
        """Return whether the monitor still reads the app's stream ``name`` (stdout or stderr)."""
        return name in self._readers.values()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the app's terminal in characters; do nothing if it has no terminal."""
        if self._terminal >= 0:
            from ociruntime.base.terminal import set_window_size

            set_window_size(self._terminal, rows, columns)

    def put(self, data: bytes) -> bool:
        """Write ``data`` to the app's stdin, or buffer it; return whether more can be buffered."""
        if self._input >= 0 and not self._closing:
            self._pending += data
            self._write()
        return len(self._pending) < INPUT_LIMIT

    def end_input(self) -> None:
        """Close the app's stdin once buffered input is written; do nothing for a terminal."""
        if self._input >= 0 and self._input != self._terminal:
            self._closing = True
            self._write()

    def _write(self) -> None:
        if self._input < 0:
            return
        try:
            while self._pending:
                self._pending = self._pending[os.write(self._input, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self._pending = b""  # the app has closed its stdin
        if self._input == self._terminal:
            self._watch_terminal()
        elif self._pending:
            self._loop.watch(self._input, WRITABLE, lambda _: self._write())
        else:
            self._loop.forget(self._input)
            if self._closing:
                os.close(self._input)
                self._input = -1
        if len(self._pending) < INPUT_LIMIT:
            for callback in list(self.on_room):
                callback()

    def _watch_terminal(self) -> None:
        if self._terminal in self._readers:
            events = READABLE | (WRITABLE if self._pending else 0)
            self._loop.watch(self._terminal, events, self._terminal_ready)

    def _terminal_ready(self, events: int) -> None:
        if events & WRITABLE:
            self._write()
        if events & ~WRITABLE and self._terminal in self._readers:
            self._read(self._terminal)

    def _read(self, fd: int) -> int:
        """Read output from ``fd`` and pass it to ``sinks``; return the number of bytes."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            for sink in list(self.sinks):
                sink(self._readers[fd], data)
            return len(data)
        self._loop.forget(fd)
        if fd == self._terminal:
            # EIO: no process has the terminal open now; a process may open it again.
            self._loop.after(HANGUP_POLL_INTERVAL, self._watch_terminal)
        else:
            del self._readers[fd]
            os.close(fd)
        return 0

    def _read_ready(self, fd: int) -> None:
        self._read(fd)

    def drain(self) -> None:
        """Read the remaining output of an app that has exited, at most a full pipe per stream.

        Without the limit, orphans of the app that keep writing could occupy the monitor for ever.
        """
        for fd in list(self._readers):
            remaining = PIPE_CAPACITY
            while remaining > 0 and (size := self._read(fd)):
                remaining -= size

    def close(self) -> None:
        """Close all descriptors of the streams."""
        self.close_app_ends()
        for fd in {*self._readers, self._input, self._terminal} - {-1}:
            self._loop.forget(fd)
            os.close(fd)
        self._readers.clear()
        self._input = self._terminal = -1


class ConsoleListener:
    """The socket that receives the master of an app's terminal from the OCI runtime.

    Its path is the runtime's option ``--console-socket``.
    """

    __slots__ = ("_path", "_socket")

    def __init__(self, path: str) -> None:
        """Create a listening socket at ``path``, replacing a stale one.

        Raises HostError if the socket cannot be created.
        """
        self._path = path
        try:
            remove_file(path)
        except OSError as error:
            raise HostError(f'remove the console socket "{path}"', error) from None
        self._socket = listen(path, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, 1)

    def take(self) -> int:
        """Return the descriptor of the terminal's master that the runtime has sent, or -1.

        Closes the listening socket.  Call this once the runtime has exited.
        """
        master = -1
        try:
            sender, _ = self._socket.accept()
            _, rights, _, _ = sender.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            sender.close()
            for level, kind, data in rights:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    master = int.from_bytes(data[:4], "little")
        except OSError:
            pass  # the runtime has not connected
        finally:
            self._socket.close()
            remove_file(self._path)
        if master >= 0:
            os.set_inheritable(master, False)
        return master
