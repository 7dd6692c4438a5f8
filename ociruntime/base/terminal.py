"""The host terminal that a foreground container uses: find it, set raw mode, copy its size."""

from __future__ import annotations

import fcntl
import posix
from struct import pack, unpack

from ociruntime.base.errors import ConfigError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any
else:
    import _signal

WINDOW_SIZE = 8  # bytes of struct winsize: four u16 (rows, columns, width and height in pixels)


def window_size(fd: int) -> tuple[int, int] | None:
    """Return (rows, columns) of the terminal ``fd``; None if it is not known.

    The size is not known if ``fd`` is not a terminal, or if its size is not set (0 rows or
    columns).
    """
    import termios

    try:
        size = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(WINDOW_SIZE))
    except OSError:
        return None
    rows, columns, _, _ = unpack("HHHH", size)
    return (rows, columns) if rows and columns else None


def set_window_size(fd: int, rows: int, columns: int) -> None:
    """Set the size of the terminal ``fd``.  Raises OSError."""
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))


def keep_line_feeds(master: int) -> None:
    """Switch off ONLCR on the pty ``master``, so that output keeps plain line feeds, as in runc."""
    import termios

    modes = termios.tcgetattr(master)
    modes[1] &= ~termios.ONLCR
    termios.tcsetattr(master, termios.TCSANOW, modes)


def find_terminal() -> Terminal:
    """Return the host's terminal: the first of stderr, stdout and stdin that is a terminal.

    If none of them is, opens /dev/tty.  Call this function before creating anything, because it
    raises ConfigError if this process has no terminal.
    """
    for fd in (2, 1, 0):
        if posix.isatty(fd):
            return Terminal(fd, owned=False)
    try:
        fd = posix.open("/dev/tty", posix.O_RDWR | posix.O_NOCTTY | posix.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            "",
            "process.terminal is true but neither stdin, stdout nor stderr is a terminal, "
            f"and /dev/tty cannot be opened: {reason(error)}",
            "set process.terminal to false, or use --console-socket with create or run --detach",
        ) from None
    return Terminal(fd, owned=True)


class Terminal:
    """The host's terminal, open as ``fd``; if ``owned``, ``restore`` closes the descriptor."""

    __slots__ = ("_owned", "_saved", "fd")

    def __init__(self, fd: int, *, owned: bool) -> None:
        self.fd = fd
        self._owned = owned
        self._saved: list[Any] | None = None

    def make_raw(self, *, keep_output: bool = False) -> None:
        """Set the terminal to raw mode, like cfmakeraw(3); the first call saves the previous modes.

        With ``keep_output``, the terminal still converts line feeds in the output.  Call this again
        when the process continues after a stop, because the shell has set its own modes by then.
        """
        import termios

        saved = termios.tcgetattr(self.fd)
        if self._saved is None:
            self._saved = saved
        iflag, oflag, cflag, lflag, ispeed, ospeed, cc = saved
        iflag &= ~(termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP)
        iflag &= ~(termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
        if not keep_output:
            oflag &= ~termios.OPOST
        cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
        cc = list(cc)
        cc[termios.VMIN], cc[termios.VTIME] = 1, 0
        raw = [iflag, oflag, cflag, lflag, ispeed, ospeed, cc]
        termios.tcsetattr(self.fd, termios.TCSANOW, raw)

    def restore(self) -> None:
        """Restore the modes saved by ``make_raw``, and close the terminal if it is ``owned``.

        Ignores SIGTTOU during the call, because that signal would stop a background process.
        Ignores errors of a terminal that no longer exists.
        """
        if self._saved is not None:
            import termios

            old = _signal.signal(_signal.SIGTTOU, _signal.SIG_IGN)
            try:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._saved)
            except termios.error:
                pass
            finally:
                _signal.signal(_signal.SIGTTOU, old if old is not None else _signal.SIG_DFL)
            self._saved = None
        if self._owned:
            self._owned = False
            posix.close(self.fd)

    def give_size_to(self, master: int) -> None:
        """Copy this terminal's window size, if it has one, to the pty ``master``; ignore errors."""
        import termios

        try:
            size = fcntl.ioctl(self.fd, termios.TIOCGWINSZ, bytes(WINDOW_SIZE))
            if size[:4] != bytes(4):
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)
        except OSError:
            pass  # one of the two terminals is gone
