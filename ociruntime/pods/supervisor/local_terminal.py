"""The user's terminal, connected to the pod's only app (``--interactive``)."""

from __future__ import annotations

import posix

from ociruntime.base.terminal import Terminal
from ociruntime.pods.loop.loop import READABLE
from ociruntime.pods.supervisor.foreground_copy import ForegroundCopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from ociruntime.pods.loop.loop import Loop
    from ociruntime.pods.supervisor.app_streams import AppStreams
else:
    import _signal

CHUNK = 4096


class LocalTerminal:
    """Between ``connect`` and ``close``, the terminal is in raw mode and keys go to the app."""

    __slots__ = ("_input", "_loop", "_output", "_streams", "_terminal")

    def __init__(self, loop: Loop) -> None:
        """Open standard input, which must be a terminal.  Raises OSError."""
        self._loop = loop
        self._terminal = Terminal(0, owned=False)
        self._output = ForegroundCopy(loop, 1)
        self._streams: AppStreams | None = None
        # Reopen it: O_NONBLOCK on the shared description would affect the caller's shell.
        flags = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
        self._input = posix.open("/proc/self/fd/0", flags)

    def connect(self, streams: AppStreams) -> None:
        """Connect to the app's terminal."""
        self._streams = streams
        self._terminal.make_raw()
        streams.on_room.append(self._watch)
        self.resize()
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self._input, READABLE, self._read)

    def _read(self, events: int) -> None:
        del events
        try:
            data = posix.read(self._input, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or self._streams is None or not self._streams.put(data):
            self._loop.forget(self._input)

    def write(self, data: bytes) -> None:
        """Write the app's output to the terminal."""
        self._output.write_bare(data)

    @property
    def is_empty(self) -> bool:
        """Return whether all output has been written."""
        return self._output.is_empty

    def signal(self, number: int) -> None:
        """Handle SIGWINCH (new size) and SIGCONT (raw mode again)."""
        if self._streams is None:
            return
        if number == _signal.SIGCONT:
            self._terminal.make_raw()
        if number in (_signal.SIGCONT, _signal.SIGWINCH):
            self.resize()

    def resize(self) -> None:
        """Set the size of the app's terminal to ours."""
        if self._streams is not None and self._streams.has_terminal:
            self._terminal.give_size_to(self._streams.terminal)

    def close(self) -> None:
        """Disconnect from the app and restore the terminal's mode."""
        self._streams = None
        self._loop.forget(self._input)
        posix.close(self._input)
        self._output.close()
        self._terminal.restore()
