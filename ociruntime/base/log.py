"""The runtime's log (``--log``): errors, warnings and debug messages, to standard error or a file.

Engines parse the log: containerd takes the last JSON object whose level is ``error``; podman reads
the whole file as one JSON document.  Therefore a failing command writes a single line in runc's
format (logrus text, or one-line JSON with the keys ``level``, ``msg``, ``time``).  The time
includes the time zone.  If the log is a file, the error message is also printed on standard error,
for conmon and for users.

Warnings are held back until the command has succeeded: a warning and an error in one file would be
two JSON documents.  With ``--debug``, everything is written immediately.

Like all modules that every command loads, this one uses ``posix`` instead of ``os``, whose import
takes a millisecond (the interpreter runs without ``site``, so nothing else imports it).
"""

from __future__ import annotations

import posix
import time
from _json import encode_basestring_ascii
from errno import ELOOP

from ociruntime.base.errors import HostError

STDERR = 2
FILE_TYPES, REGULAR = 0o170000, 0o100000  # S_IFMT, S_IFREG

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/@^+")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', **_SHORT}


class Log:
    """A log, written to ``target`` (a path; "" for standard error) in ``text`` or ``json`` format.

    ``debug`` enables all levels; ``warnings`` enables warnings.  Only ``open`` raises exceptions.
    """

    __slots__ = ("_held", "debugging", "format", "target", "warnings")

    def __init__(
        self, target: str = "", format: str = "text", debug: bool = False, warnings: bool = False
    ) -> None:
        self.target = target
        self.format = format
        self.debugging = debug
        self.warnings = warnings
        self._held: list[str] = []

    def open(self) -> None:
        """Create the log file if it does not exist, and check that it can be opened.

        Raises HostError for a link that another user may have planted, ValueError if the path
        contains NUL, OSError if the file cannot be opened.
        """
        if not self.target:
            return
        try:
            if posix.stat(self.target).st_mode & FILE_TYPES != REGULAR:
                return  # do not open and close a FIFO: its reader would see end of file
        except FileNotFoundError:
            pass
        posix.close(_open_log(self.target))

    def error(self, message: str) -> None:
        """Log the error that makes the command fail; discard the warnings that were held back."""
        self._held.clear()
        if self.target:
            self._append(self._line("error", message))
            _write(plain(message))
        elif self.format == "text" and posix.isatty(STDERR):
            _write(plain(message))
        else:
            _write(self._line("error", message))

    def warning(self, message: str) -> None:
        """Log a warning; hold it back until ``flush`` unless ``--debug`` is set."""
        line = self._line("warning", message)
        if self.debugging:
            self._emit(line)
        elif self.warnings:
            self._held.append(line)

    def debug(self, message: str) -> None:
        """Log a debug message; a no-op without ``--debug``."""
        if self.debugging:
            self._emit(self._line("debug", message))

    def flush(self) -> None:
        """Write the warnings that were held back; call it once the command has succeeded."""
        if self._held:
            self._emit("".join(self._held))
            self._held.clear()

    def _line(self, level: str, message: str) -> str:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if self.format == "json":
            text = encode_basestring_ascii(message)
            return f'{{"level":"{level}","msg":{text},"time":"{now}"}}\n'
        return f'time="{now}" level={level} msg={quote(message)}\n'

    def _emit(self, lines: str) -> None:
        if self.target:
            self._append(lines)
        else:
            _write(lines)

    def _append(self, lines: str) -> None:
        """Append ``lines`` with one write, so that concurrent commands do not mix their lines."""
        try:
            fd = _open_log(self.target)
        except (OSError, ValueError, HostError) as error:
            _write(plain(f'open log file "{self.target}": {error}'))
            return
        try:
            posix.write(fd, lines.encode())
        except OSError as error:
            _write(plain(f'write to log file "{self.target}": {error}'))
        finally:
            posix.close(fd)


def _open_log(path: str) -> int:
    """Open the log file ``path`` for appending; return a descriptor.

    Follows a symbolic link only if no other user can have planted it; otherwise raises HostError.
    The kernel itself refuses planted links only if the sysctl fs.protected_symlinks is set.  Raises
    ValueError if ``path`` contains NUL, OSError if the file cannot be opened.
    """
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOCTTY
    try:
        return posix.open(path, flags | posix.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != ELOOP:
            raise
    from ociruntime.base.trusted_directories import check_link

    check_link(path if path.startswith("/") else f"{posix.getcwd()}/{path}", "log")
    return posix.open(path, flags, 0o644)


def quote(text: str) -> str:
    """Format ``text`` as a value in a logrus line: in quotes, unless it is one plain word."""
    if text and _BARE.issuperset(text):
        return text
    return '"' + "".join([_ESCAPES.get(c) or _printable(c) for c in text]) + '"'


def plain(text: str) -> str:
    """Escape line breaks, terminal control sequences and other unprintable characters in ``text``.

    Used for messages and tables, which quote untrusted text from files, containers and clients.
    Also escapes bidirectional overrides, invisible characters, and surrogates, which stand for
    bytes that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else _SHORT.get(c) or _printable(c) for c in text])


def plain_lines(text: str) -> str:
    """Escape ``text`` like ``plain``, but keep its line feeds; used for tracebacks."""
    return "\n".join([plain(line) for line in text.split("\n")])


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _write(text: str) -> None:
    """Write ``text`` and a line feed to standard error; ignore errors, which cannot be reported."""
    if not text.endswith("\n"):
        text += "\n"
    try:
        posix.write(STDERR, text.encode())
    except OSError:
        return
