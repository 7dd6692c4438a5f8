"""Parse the bytes of config.json and check the document's shape.

``_json`` is the C scanner behind the ``json`` module; the module itself, whose import takes several
times as long as parsing a config, is loaded only to explain an error. Stricter than most parsers:
no duplicate names (JSON-02), only UTF-8 (JSON-01), no NaN or Infinity, nothing after the document.
"""

from __future__ import annotations

import posix
from _json import make_scanner

from ociruntime.base.errors import ConfigError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ociruntime.runtime.spec.document import Config

LARGEST = 64 << 20  # bytes
FIRST_PIECE, NEXT_PIECE = 64 << 10, 1 << 20  # bytes to read at once; most files are small
_BLANKS = " \t\n\r"


def parse_config(data: bytes, name: str = "config.json") -> Config:
    """Parse and check the bytes of a config; raises ConfigError."""
    # Import here: commands that only read the state load this module too.
    from ociruntime.runtime.spec.check import check_shape

    config: Any = parse(data, name)
    check_shape(config)
    checked: Config = config
    return checked


def read(path: str) -> bytes:
    """Return the bytes of a file; raises ConfigError if it cannot be read or is too large."""
    directory, _, name = path.rpartition("/")
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except FileNotFoundError:
        message = f"JSON specification file {name} not found in {directory or '.'}"
        hint = "`ociruntime spec` writes one" if name == "config.json" else ""
        raise ConfigError("", message, hint) from None
    except OSError as error:
        raise ConfigError("", f"cannot read {path}: {reason(error)}") from None
    try:
        pieces = []
        left, size = LARGEST + 1, FIRST_PIECE
        while left > 0 and (piece := posix.read(descriptor, min(left, size))):
            pieces.append(piece)
            left -= len(piece)
            size = NEXT_PIECE
    except OSError as error:
        raise ConfigError("", f"cannot read {path}: {reason(error)}") from None
    finally:
        posix.close(descriptor)
    if left <= 0:
        raise ConfigError("", f"{path} is larger than {LARGEST >> 20} MiB")
    return b"".join(pieces)


def parse(data: bytes, name: str) -> object:
    """Parse a JSON document; ``name`` is the file's name in errors.  Raises ConfigError."""
    try:
        text = data.decode()
        start = len(text) - len(text.lstrip(_BLANKS))
        value, end = _scan(text, start)
    # The scanner raises StopIteration where no value begins; it tries to raise an exception
    # of json.decoder, which Python 3.11 has not imported (SystemError); and it reaches the
    # interpreter's limits on nesting and on the length of numbers.
    except (StopIteration, ValueError, SystemError, RecursionError):
        _explain(data, name)
    if text[end:].strip(_BLANKS):
        _explain(data, name)
    return value


def _explain(data: bytes, name: str) -> NoReturn:
    from ociruntime.runtime.spec.json_error import explain

    raise explain(data, name)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate name")
    return members


def _constant(text: str) -> NoReturn:
    raise ValueError(text)


class _Rules:
    """The attributes that the C scanner expects of a decoder."""

    strict = True  # no control characters in strings
    object_hook = None
    object_pairs_hook = staticmethod(_members)
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)


_scan = make_scanner(_Rules())  # type: ignore[arg-type]  # any object with these members does
