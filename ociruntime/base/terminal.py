"""The terminal that a foreground container shares with the person in front of it."""

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

WINDOW_SIZE = 8  # struct winsize: four u16: rows, columns, and twice pixels


def window_size(fd: int) -> tuple[int, int] | None:
    """Rows and columns of the terminal ``fd``, if it is one that knows them."""
    import termios

    try:
        size = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(WINDOW_SIZE))
    except OSError:
        return None
    rows, columns, _, _ = unpack("HHHH", size)
    return (rows, columns) if rows and columns else None


def set_window_size(fd: int, rows: int, columns: int) -> None:
    """Give the terminal ``fd`` a size.  Raises OSError."""
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))


def find_terminal() -> Terminal:
    """The host's terminal: stderr, stdout or stdin, whichever is one, else /dev/tty.

    To be called before anything is made.  Raises ConfigError if there is none.
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
            "set it to false, or use --console-socket with create or run --detach",
        ) from None
    return Terminal(fd, owned=True)


class Terminal:
    """``fd`` is the terminal; ``owned`` if it is closed with this object."""

    __slots__ = ("_owned", "_saved", "fd")

    def __init__(self, fd: int, *, owned: bool) -> None:
        self.fd = fd
        self._owned = owned
        self._saved: list[Any] | None = None

    def make_raw(self) -> None:
        """Hand every key on as it is, as cfmakeraw(3) does; the first call notes the old state.

        Called again when the process goes on after a stop: a shell sets its own modes
        in between.
        """
        import termios

        saved = termios.tcgetattr(self.fd)
        if self._saved is None:
            self._saved = saved
        iflag, oflag, cflag, lflag, ispeed, ospeed, cc = saved
        iflag &= ~(termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP)
        iflag &= ~(termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
        oflag &= ~termios.OPOST
        cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
        cc = list(cc)
        cc[termios.VMIN], cc[termios.VTIME] = 1, 0
        raw = [iflag, oflag, cflag, lflag, ispeed, ospeed, cc]
        termios.tcsetattr(self.fd, termios.TCSANOW, raw)

    def restore(self) -> None:
        """Put the modes back that were found, and close what was opened.

        Also from the background, where the kernel would stop us for it; a terminal that
        is gone needs nothing.
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
        """Make the container's terminal as large as this one, if this one knows its size."""
        import termios

        try:
            size = fcntl.ioctl(self.fd, termios.TIOCGWINSZ, bytes(WINDOW_SIZE))
            if size[:4] != bytes(4):
                fcntl.ioctl(master, termios.TIOCSWINSZ, size)
        except OSError:
            pass  # one of the two has gone: nothing to be seen there any more
