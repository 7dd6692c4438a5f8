"""Parse the bytes of config.json and check the document's shape.

``_json`` is the C scanner behind the ``json`` module; the module itself, whose import takes several
times as long as parsing a config, is loaded only to explain an error. Stricter than most parsers:
no duplicate names (JSON-02), only UTF-8 (JSON-01), no NaN or Infinity, nothing after the document.
"""

from __future__ import annotations

import json
import posix
import re
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
    """A config out of its bytes; raises ConfigError."""
    # Import here: commands that only read the state load this module too.
    from ociruntime.runtime.spec.check import check_shape

    config: Any = parse(data, name)
    check_shape(config)
    checked: Config = config
    return checked


def read(path: str) -> bytes:
    """The bytes of a file; raises ConfigError if it cannot be read or is too large."""
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
    """The JSON document in ``data``; ``name`` is what errors call it.  Raises ConfigError."""
    try:
        text = data.decode()
        start = len(text) - len(text.lstrip(_BLANKS))
        value, end = _scan(text, start)
    # The scanner stops with StopIteration where no value begins; it wants to raise an exception
    # of json.decoder, which Python 3.11 does not import for it (SystemError); and it meets the
    # interpreter's limits on nesting and on the length of numbers.
    except (StopIteration, ValueError, SystemError, RecursionError):
        _explain(data, name)
    if text[end:].strip(_BLANKS):
        _explain(data, name)
    return value


def _explain(data: bytes, name: str) -> NoReturn:

    raise explain(data, name)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate name")
    return members


def _constant(text: str) -> NoReturn:
    raise ValueError(text)


class _Rules:
    """The attributes that the scanner expects of its decoder."""

    strict = True  # no control characters in strings
    object_hook = None
    object_pairs_hook = staticmethod(_members)
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)


_scan = make_scanner(_Rules())  # type: ignore[arg-type]  # any object with these members does


_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|-?Infinity|NaN')


def explain(data: bytes, name: str) -> ConfigError:
    """The error for ``data``, which the scanner refused."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        return _at(before, len(before), name, f"byte 0x{data[error.start]:02x} is not UTF-8")
    if not text.strip():
        return ConfigError("", f"{name} is empty")
    if text.startswith("\ufeff"):
        return _at(text, 0, name, "a byte order mark is not JSON", "save the file without it")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _syntax(text, error, name)
    except RecursionError:
        return ConfigError("", f"{name} is nested too deeply")
    except ValueError:
        return ConfigError("", f"{name} contains a number with too many digits")
    return _tokens(text, name)


def _syntax(text: str, error: json.JSONDecodeError, name: str) -> ConfigError:
    position = error.pos
    rest = text[position:]
    before = text[:position].rstrip()
    if rest[:1] in ("}", "]") and before.endswith(","):
        return _at(text, len(before) - 1, name, "trailing comma")
    # Since Python 3.13 the position is the comma's.
    if rest[:1] == "," and rest[1:].lstrip()[:1] in ("}", "]"):
        return _at(text, position, name, "trailing comma")
    if rest.startswith(("//", "/*", "#")):
        return _at(text, position, name, "JSON has no comments")
    if rest.startswith("'"):
        return _at(text, position, name, "strings need double quotes")
    if not rest:
        return _at(text, position, name, "the text ends too early", "is the file cut off?")
    if error.msg == "Extra data":
        return _at(text, position, name, "there is more text after the end of the document")
    if error.msg.startswith("Expecting ',' delimiter"):
        return _at(text, position, name, "expected a comma or the end of the object or array")
    if error.msg.startswith("Expecting property name"):
        return _at(text, position, name, "expected a key in double quotes")
    if error.msg.startswith("Invalid control character"):
        return _at(text, position, name, "a control character in a string must be escaped")
    if error.msg.startswith("Unterminated string"):
        return _at(text, position, name, "this string does not end")
    return _at(text, position, name, error.msg[:1].lower() + error.msg[1:])


def _tokens(text: str, name: str) -> ConfigError:
    """Find what Python's own decoder lets pass: NaN, Infinity, duplicate names."""
    names: list[dict[str, int]] = []  # of each object or array around: key -> position
    previous = ("", 0)
    for token in _TOKENS.finditer(text):
        word = token[0]
        if word in ("{", "["):
            names.append({})
        elif word in ("}", "]"):
            names.pop()
        elif word == ":":
            key, position = json.loads(previous[0]), previous[1]
            first = names[-1].setdefault(key, position)
            if first != position:
                line = text.count("\n", 0, first) + 1
                column = first - text.rfind("\n", 0, first)
                given = f'"{key}" is already given at line {line} column {column}'
                return _at(text, position, name, given)
        elif word.lstrip("-") in ("NaN", "Infinity"):
            return _at(text, token.start(), name, f"{word} is not JSON")
        previous = (word, token.start())
    return ConfigError("", f"{name} is not JSON")


def _at(text: str, position: int, name: str, message: str, hint: str = "") -> ConfigError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return ConfigError("", f"{name} line {line} column {column}: {message}", hint)
