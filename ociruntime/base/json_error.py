"""Explain why a JSON document is invalid, with line, column and cause.

This module is imported only after a document was refused, because it imports ``json`` and ``re``.
"""

from __future__ import annotations

import json
import re

from ociruntime.base.errors import ConfigError

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|-?Infinity|NaN')


def explain(data: bytes, name: str) -> ConfigError:
    """Return a ConfigError that says where and why the JSON text ``data`` is invalid.

    ``name`` names the document in the message.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        return _at(
            before,
            len(before),
            name,
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            "save the file in UTF-8",
        )
    if not text.strip():
        return ConfigError("", f"{name} is empty")
    if text.startswith("\ufeff"):
        return _at(
            text,
            0,
            name,
            "a byte order mark (BOM) is not valid JSON",
            "save the file as UTF-8 without BOM",
        )
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
    # Since Python 3.13 the error's position is that of the comma.
    if rest[:1] == "," and rest[1:].lstrip()[:1] in ("}", "]"):
        return _at(text, position, name, "trailing comma")
    if rest.startswith(("//", "/*", "#")):
        return _at(text, position, name, "comments are not valid JSON", "remove them")
    if rest.startswith("'"):
        return _at(text, position, name, "strings need double quotes")
    if not rest:
        return _at(
            text,
            position,
            name,
            "unexpected end of the document",
            "check that the file is complete",
        )
    if error.msg == "Extra data":
        return _at(text, position, name, "unexpected text after the end of the document")
    if error.msg.startswith("Expecting ',' delimiter"):
        return _at(text, position, name, "expected a comma or the end of the object or array")
    if error.msg.startswith("Expecting property name"):
        return _at(text, position, name, "expected a key in double quotes")
    if error.msg.startswith("Invalid control character"):
        return _at(text, position, name, "a control character in a string must be escaped")
    if error.msg.startswith("Unterminated string"):
        return _at(text, position, name, "unterminated string", 'add the closing "')
    return _at(text, position, name, error.msg[:1].lower() + error.msg[1:])


def _tokens(text: str, name: str) -> ConfigError:
    """Return the error for the first NaN, Infinity or duplicate name in ``text``.

    The module ``json`` accepts all three.  If ``text`` contains none of them, the error has no
    position.
    """
    names: list[dict[str, int]] = []  # for each enclosing object or array: {key: position}
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
                duplicate = f'duplicate name "{key}": first given at line {line} column {column}'
                return _at(text, position, name, duplicate)
        elif word.lstrip("-") in ("NaN", "Infinity"):
            return _at(text, token.start(), name, f"{word} is not a valid JSON number")
        previous = (word, token.start())
    return ConfigError("", f"{name} is not valid JSON")


def _at(text: str, position: int, name: str, message: str, hint: str = "") -> ConfigError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return ConfigError("", f"{name} line {line} column {column}: {message}", hint)
