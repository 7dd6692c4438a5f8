"""Parse D-Bus values in the text form of GVariant: ``uint64 5``, ``['a', 'b']``, ``true``.

Source: the GVariant text format (docs.gtk.org, glib).  The form of a value determines its type:
whole numbers are int32, other numbers are double.  A prefix such as ``uint64`` or ``@t`` overrides
this type.  All elements of an array have the type of the first one.  GVariant's maybe types are not
supported, because D-Bus has none.
"""

from __future__ import annotations

from typing import Any

_WORDS = {
    "boolean": "b",
    "byte": "y",
    "int16": "n",
    "uint16": "q",
    "int32": "i",
    "uint32": "u",
    "int64": "x",
    "uint64": "t",
    "double": "d",
    "string": "s",
    "objectpath": "o",
    "signature": "g",
}
LONGEST_SHOWN = 40  # characters of a number in an error
_RANGES = {
    "y": (0, 0xFF),
    "n": (-0x8000, 0x7FFF),
    "q": (0, 0xFFFF),
    "i": (-0x80000000, 0x7FFFFFFF),
    "u": (0, 0xFFFFFFFF),
    "x": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
    "t": (0, 0xFFFFFFFFFFFFFFFF),
}
_TEXTS = "sog"
_BASIC = "ybnqiuxtdsog"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CODES = {"u": 4, "U": 8}  # number of hexadecimal digits in \\u and \\U escapes
_DEEPEST = 32
_LONGEST_SIGNATURE = 255
_REQUIRED = {"o": "an object path", "g": "a signature"}


class Malformed(ValueError):
    """A syntax error in GVariant text; ``str()`` describes it, such as "unterminated string"."""


def parse(text: str) -> tuple[str, Any]:
    """Parse GVariant text; return (D-Bus signature, value).

    The value consists of lists, tuples, dicts, str, int, float, bool and bytes; a variant is
    (signature, value).  Raises Malformed if ``text`` is not a single valid value.
    """
    reader = _Reader(text)
    result = reader.value("")
    reader.skip_blanks()
    if reader.position != len(text):
        raise Malformed(f'unexpected "{text[reader.position :]}" after the value')
    return result


def element_type(signature: str, start: int = 0) -> str:
    """Return the first complete D-Bus type in ``signature[start:]``.

    Raises Malformed if the signature has no valid type there.
    """
    end = _type_end(signature, start, 0)
    return signature[start:end]


def _type_end(signature: str, start: int, depth: int) -> int:
    letter = signature[start : start + 1]
    if depth > _DEEPEST or not letter:
        raise Malformed(f'"{signature}" does not begin with a valid D-Bus type')
    if letter in _BASIC or letter == "v":
        return start + 1
    if letter == "a":
        return _type_end(signature, start + 1, depth + 1)
    close = {"(": ")", "{": "}"}.get(letter)
    position = start + 1
    while close and signature[position : position + 1] != close:
        position = _type_end(signature, position, depth + 1)
    if not close or position == start + 1:
        raise Malformed(f'"{signature}" does not begin with a valid D-Bus type')
    return position + 1


def _is_object_path(text: str) -> bool:
    """Return whether D-Bus accepts ``text`` as an object path, such as ``/a/b_1``."""
    parts = text.removeprefix("/").split("/")
    are_names = all(part and part.isascii() and part.replace("_", "a").isalnum() for part in parts)
    return text.startswith("/") and (text == "/" or are_names)


def _is_signature(text: str) -> bool:
    """Return whether D-Bus accepts ``text`` as a signature.

    A signature is a list of types, such as ``sa{sv}``.
    """
    at = 0
    try:
        while at < len(text):
            at += len(element_type(text, at))
    except Malformed:
        return False
    return len(text) <= _LONGEST_SIGNATURE


class _Reader:
    """A recursive-descent parser of GVariant text.

    The argument ``expected`` of its methods is the D-Bus signature that the next value must have,
    "" for any.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._depth = 0

    def skip_blanks(self) -> None:
        while self._next().isspace():
            self.position += 1

    def value(self, expected: str) -> tuple[str, Any]:
        """Parse the next value; return (D-Bus signature, value).

        Raises Malformed if the text has no valid value there.
        """
        self.skip_blanks()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Malformed("the value is nested too deeply")
        try:
            return self._value(expected)
        finally:
            self._depth -= 1

    def _value(self, expected: str) -> tuple[str, Any]:
        letter = self._next()
        if letter in ("'", '"'):
            kind, text = self._as(expected, _TEXTS, "s"), self._string(letter)
            if (kind == "o" and not _is_object_path(text)) or (
                kind == "g" and not _is_signature(text)
            ):
                raise Malformed(f'"{text}" is not {_REQUIRED[kind]}')
            return kind, text
        if letter == "[":
            return self._array(expected)
        if letter == "(":
            return self._tuple(expected)
        if letter == "{":
            return self._dictionary(expected)
        if letter == "<":
            self.position += 1
            inner = self.value("")
            self._take(">")
            return self._as(expected, "v", "v"), inner
        if letter == "@":
            self.position += 1
            start = self.position
            kind = element_type(self.text, start)
            self.position = start + len(kind)
            return self.value(self._same(expected, kind))
        if self.text[self.position : self.position + 2] in ("b'", 'b"'):
            self.position += 1
            data = self._string(self._next()).encode() + b"\0"
            return self._same(expected, "ay"), data
        return self._word(expected)

    def _word(self, expected: str) -> tuple[str, Any]:
        start = self.position
        while self._next() and (self._next().isalnum() or self._next() in "+-._"):
            self.position += 1
        word = self.text[start : self.position]
        if word in _WORDS:
            return self.value(self._same(expected, _WORDS[word]))
        if word in ("true", "false"):
            return self._as(expected, "b", "b"), word == "true"
        if not word:
            next_letter = f'"{self._next()}"' if self._next() else "nothing"
            raise Malformed(f"expected a value, got {next_letter}")
        return self._number(word, expected)

    def _number(self, word: str, expected: str) -> tuple[str, Any]:
        try:
            number = _whole(word)
        except ValueError:
            try:
                real = float(word if "_" not in word else "-")
            except ValueError:
                raise Malformed(
                    f"neither a number nor a keyword; a string must be quoted: \"'{word}'\""
                ) from None
            return self._as(expected, "d", "d"), real
        kind = self._as(expected, "ynqiuxtd", "i")
        if kind == "d":
            try:
                return kind, float(number)
            except OverflowError:
                raise Malformed("the number is too large for a double") from None
        low, high = _RANGES[kind]
        if not low <= number <= high:
            # Do not format ``number``: Python refuses to print integers of thousands of digits.
            shown = word if len(word) <= LONGEST_SHOWN else f"{word[:LONGEST_SHOWN]}..."
            raise Malformed(f"the number {shown} is out of range ({low} to {high})")
        return kind, number

    def _string(self, quote: str) -> str:
        self.position += 1
        letters = []
        while (letter := self._step()) != quote:
            if letter != "\\":
                letters.append(letter)
                continue
            letter = self._step()
            if letter in _CODES:
                digits = self.text[self.position : self.position + _CODES[letter]]
                self.position += _CODES[letter]
                try:
                    letters.append(chr(int(digits, 16)))
                except (ValueError, OverflowError):
                    raise Malformed(f'invalid escape sequence "\\{letter}{digits}"') from None
            else:
                letters.append(_ESCAPES.get(letter, letter))
        text = "".join(letters)
        if "\0" in text:
            raise Malformed("a string must not contain NUL")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Malformed("a string must not contain an unpaired surrogate")
        return text

    def _array(self, expected: str) -> tuple[str, Any]:
        kind = self._container(expected, "a")
        values = []
        for _ in self._elements("[", "]"):
            inner, value = self.value(kind)
            kind = kind or inner
            values.append(value)
        if not kind:
            raise Malformed("an empty array needs a type, such as @as []")
        return "a" + kind, values

    def _tuple(self, expected: str) -> tuple[str, Any]:
        inner = self._container(expected, "(")
        kinds: list[str] = []
        values = []
        for _ in self._elements("(", ")"):
            expected_kind = element_type(inner, len("".join(kinds))) if inner else ""
            kind, value = self.value(expected_kind)
            kinds.append(kind)
            values.append(value)
        signature = "(" + "".join(kinds) + ")"
        if not kinds or (expected and signature != expected):
            raise Malformed("a tuple has too few elements")
        return signature, tuple(values)

    def _dictionary(self, expected: str) -> tuple[str, Any]:
        inner = self._container(expected, "a{")
        key_kind, value_kind = inner[:1], inner[1:]
        entries = {}
        for _ in self._elements("{", "}"):
            key_kind, key = self.value(key_kind)
            if key_kind not in _BASIC:
                raise Malformed(f"a dictionary key cannot have the type {key_kind}")
            self._take(":")
            value_kind, entries[key] = self.value(value_kind)
        if not value_kind:
            raise Malformed("an empty dictionary needs a type, such as @a{ss} {}")
        return f"a{{{key_kind}{value_kind}}}", entries

    def _elements(self, opening: str, closing: str) -> Any:  # noqa: ANN401 - an iterator
        """Yield once before each element of a bracketed list; the caller parses the element.

        A comma after the last element is allowed.
        """
        self._take(opening)
        while not self._comes(closing):
            yield
            if not self._comes(","):
                self._take(closing)
                return

    def _comes(self, letter: str) -> bool:
        self.skip_blanks()
        if self._next() != letter:
            return False
        self.position += 1
        return True

    def _take(self, letter: str) -> None:
        if not self._comes(letter):
            next_letter = f'"{self._next()}"' if self._next() else "nothing"
            raise Malformed(f'expected "{letter}", got {next_letter}')

    def _next(self) -> str:
        return self.text[self.position : self.position + 1]

    def _step(self) -> str:
        letter = self._next()
        if not letter:
            raise Malformed("unterminated string")
        self.position += 1
        return letter

    def _container(self, expected: str, opening: str) -> str:
        """Return the element types in the container type ``expected``; "" if any type is allowed.

        ``opening`` says which container the text contains: ``a`` (array), ``(`` (tuple) or ``a{``
        (dictionary).  Raises Malformed if ``expected`` does not begin with ``opening``.
        """
        if expected and not expected.startswith(opening):
            raise Malformed(f"the value is not of the type {expected}")
        inner = expected[len(opening) :]
        return inner[:-1] if opening[-1] in "({" else inner

    def _as(self, expected: str, possible: str, usual: str) -> str:
        if expected and expected not in possible:
            raise Malformed(f"the value is not of the type {expected}")
        return expected or usual

    def _same(self, expected: str, kind: str) -> str:
        if expected not in ("", kind):
            raise Malformed(f"the value has the type {kind} instead of {expected}")
        return kind


def _whole(word: str) -> int:
    """Parse a decimal, hexadecimal (prefix 0x) or octal (prefix 0) integer, as in C.

    Raises ValueError if ``word`` is not such an integer.
    """
    digits = word.lstrip("+-")
    if len(word) - len(digits) > 1 or not digits.isascii() or "_" in digits:
        raise ValueError
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[:1] == "0" and digits != "0" else 10
    number = int(digits, base)
    return -number if word[0] == "-" else number
