"""A relay between the host's standard streams and a container's terminal.

``foreground.py`` runs the event loop: ``watch`` registers descriptors, and ``handle`` transfers the
available data without blocking.  Each direction has one buffer, which is filled only when it is
empty.  A slow reader thus slows down the writer instead of filling memory.
"""

from __future__ import annotations

import posix
import select
import stat

from ociruntime.base.terminal import Terminal, keep_line_feeds

CHUNK = 65536
# Milliseconds between two polls of the pty master while no process has the container's terminal
# open: poll(2) then returns immediately.
HUNG_UP_PAUSE = 100
# Milliseconds that the last output may wait for a terminal that accepts none.
DRAIN_LIMIT = 5000


class Relay:
    """A relay between the host's ``stdin`` and ``stdout`` and the pty ``master``.

    ``terminal`` is the host's terminal, which the relay sets to raw mode and whose window size it
    copies; ``stdin`` and ``stdout`` may be redirected to other files.  ``close`` also closes
    ``master``.
    """

    __slots__ = (
        "_hung_up",
        "_input",
        "_input_ended",
        "_master",
        "_output",
        "_output_unwanted",
        "_owned",
        "_stdin",
        "_stdout",
        "_terminal",
    )

    def __init__(self, master: int, terminal: Terminal, stdin: int = 0, stdout: int = 1) -> None:
        posix.set_blocking(master, False)
        keep_line_feeds(master)
        self._master = master
        self._terminal = terminal
        self._owned = [master]
        self._stdin = self._without_blocking(stdin, posix.O_RDONLY)
        self._stdout = self._without_blocking(stdout, posix.O_WRONLY)
        self._input = b""  # read from stdin, not yet written to the master
        self._output = b""  # read from the master, not yet written to stdout
        self._input_ended = False
        self._output_unwanted = False
        self._hung_up = False
        self.resize()

    def _without_blocking(self, fd: int, access: int) -> int:
        """Reopen a terminal or pipe for non-blocking access; return ``fd`` if that is impossible.

        Setting O_NONBLOCK on ``fd`` would affect every program that shares the open file (such as
        the caller's shell), and would persist if this process were killed.
        """
        try:
            mode = posix.fstat(fd).st_mode
            if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and posix.isatty(fd)):
                flags = access | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
                fd = posix.open(f"/proc/self/fd/{fd}", flags)
                self._owned.append(fd)
        except OSError:
            pass  # closed, or owned by another user: use the descriptor as it is
        return fd

    def begin(self) -> None:
        """Set the host's terminal to raw mode, but let it add carriage returns to the output."""
        self._terminal.make_raw(keep_output=True)

    def resume(self) -> None:
        """Set raw mode and copy the window size again after SIGTSTP: both may have changed."""
        self._terminal.make_raw(keep_output=True)
        self.resize()

    def resize(self) -> None:
        """Copy the window size of the host's terminal to the container's terminal."""
        self._terminal.give_size_to(self._master)

    def watch(self, poll: select.poll) -> int | None:
        """Register the relay's descriptors with ``poll``; return the timeout for ``poll`` in ms.

        None means no timeout.
        """
        hung_up, self._hung_up = self._hung_up, False
        events = 0
        if not hung_up:
            events = (0 if self._output else select.POLLIN) | (select.POLLOUT if self._input else 0)
        _watch(poll, self._master, events)
        idle = bool(self._input) or self._input_ended
        _watch(poll, self._stdin, 0 if idle else select.POLLIN)
        _watch(poll, self._stdout, select.POLLOUT if self._output else 0)
        return HUNG_UP_PAUSE if hung_up else None

    def handle(self, fd: int, events: int) -> None:
        """Transfer data after the poll reported ``events`` for the descriptor ``fd``."""
        if fd == self._stdin:
            self._read_input()
        elif fd == self._stdout:
            self._write_output()
        elif fd == self._master:
            if events & select.POLLOUT:
                self._write_input()
            if events & ~select.POLLOUT:
                self._read_output()

    def _read_input(self) -> None:
        try:
            self._input = posix.read(self._stdin, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._input = b""
        if self._input:
            self._write_input()
        else:
            self._input_ended = True  # a pty has no way to transmit end of file

    def _write_input(self) -> None:
        try:
            self._input = self._input[posix.write(self._master, self._input) :]
        except BlockingIOError:
            pass
        except OSError:
            self._input = b""

    def _read_output(self) -> bool:
        """Fill the empty output buffer from the pty; return False if there is no output."""
        if self._output:
            return True
        try:
            self._output = posix.read(self._master, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            self._output = b""
        if not self._output:
            self._hung_up = True
            return False
        self._write_output()
        return True

    def _write_output(self) -> None:
        if self._output_unwanted:
            self._output = b""
            return
        try:
            self._output = self._output[posix.write(self._stdout, self._output) :]
        except BlockingIOError:
            pass
        except OSError:
            # The reader is gone: discard the output, so that the container does not block.
            self._output_unwanted = True
            self._output = b""

    def finish(self) -> None:
        """Write the remaining output of an exited container; give up if stdout blocks for 5 s."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLOUT)
        while self._output or self._read_output():
            if self._output:
                if not poll.poll(DRAIN_LIMIT):
                    return
                self._write_output()

    def close(self) -> None:
        """Restore the host's terminal and close the relay's descriptors."""
        self._terminal.restore()
        for fd in self._owned:
            posix.close(fd)
        self._owned.clear()


def _watch(poll: select.poll, fd: int, events: int) -> None:
    if events:
        poll.register(fd, events)
    else:
        # Unregister the descriptor: poll(2) reports a hang-up again and again, even without events.
        try:
            poll.unregister(fd)
        except KeyError:
            pass
