"""The functions that templates (``templates.py``) call, and the types of a template's data.

The functions are those of Go's text/template and of docker's ``--format``.  They print values as Go
does: a list as ``[a b]``, an object whose keys users choose as ``map[key:value]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ociruntime.base.log import plain

_VERB = re.compile(r"%([-+# 0]*)(\d+|\*)?(?:\.(\d+))?(.)", re.DOTALL)
_WIDEST = 1000  # the maximum number of characters that ``printf`` and ``pad`` add
_EXPONENT = 1e21  # Go prints whole numbers below this without an exponent


class Safe(str):
    """Text that is printed without escaping: part of the template, or escaped already."""

    __slots__ = ()


class Keys(dict[str, Any]):
    """A JSON object whose keys users choose, such as labels: a missing key prints "".

    In any other object, a missing key is an unknown field, which is an error.
    """

    def __str__(self) -> str:
        return f"map[{' '.join(f'{plain(key)}:{_inner(self[key])}' for key in sorted(self))}]"


class Pairs(Keys):
    """A Keys object that is printed as ``a=1,b=2``, even by the function ``json``."""

    def __str__(self) -> str:
        return plain(self.text)

    @property
    def text(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.items())


class Null(list[Any]):
    """An empty list that is printed as ``null`` in JSON, as docker does."""


class Shape(dict[str, Any]):
    """An object with docker's names for its members, as data for a template.

    A template can also use ``own``, the same data under the daemon's names, and ``methods``, which
    maps names to functions with arguments.  Neither is printed with the object.
    """

    def __init__(
        self,
        members: dict[str, Any],
        own: dict[str, Any] | None = None,
        methods: dict[str, Callable[..., object]] | None = None,
    ) -> None:
        super().__init__(members)
        self.own = own or {}
        self.methods = methods or {}


class WrongArgument(Exception):
    """A template calls a function with an invalid argument; the message gives the reason."""


def displayed(value: object) -> str:
    """Return ``value`` as a template or a table prints it; "" for None."""
    return "" if value is None else _inner(value)


def _inner(value: object) -> str:
    """Return ``value`` as a template prints it inside a list or an object."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Safe | Keys):
        return str(value)
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _EXPONENT else repr(value)
    if isinstance(value, dict):
        return f"{{{' '.join(map(_inner, value.values()))}}}"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_inner, value))}]"
    return plain(str(value))


def _json(value: object) -> Safe:
    import json

    return Safe(json.dumps(json_value(value), separators=(",", ":")))


def json_value(value: object) -> object:
    """Convert ``value`` to a JSON document like docker's, with the keys of ``Keys`` sorted."""
    if isinstance(value, Pairs):
        return value.text
    if isinstance(value, Null):
        return None
    if isinstance(value, dict):
        items = sorted(value.items()) if isinstance(value, Keys) else value.items()
        return {key: json_value(one) for key, one in items}
    return [json_value(one) for one in value] if isinstance(value, list | tuple) else value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise WrongArgument(f'"{displayed(value)}" is not a string')
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongArgument(f'"{displayed(value)}" is not a number')
    return value


def _same_kind(change: Callable[[str], str]) -> Callable[[object], str]:
    """Return a template function that applies ``change`` to a string, and keeps a string Safe."""

    def function(value: object) -> str:
        text = _text(value)
        return Safe(change(text)) if isinstance(text, Safe) else change(text)

    return function


def _title(text: str) -> str:
    return re.sub(r"(?<![\w'])\w", lambda first: first[0].upper(), text)


def _join(items: object, separator: object) -> Safe:
    if items is None:
        items = []
    if not isinstance(items, list | tuple):
        raise WrongArgument(f'"{displayed(items)}" is not a list')
    return Safe(displayed(_text(separator)).join([displayed(_text(item)) for item in items]))


def _split(value: object, separator: object) -> list[str]:
    text, sign = _text(value), _text(separator)
    return text.split(sign) if sign else list(text)


def _pad(value: object, before: int, after: int) -> str:
    text = _text(value)
    if not text:
        return text
    left, right = (" " * max(min(_number(count), _WIDEST), 0) for count in (before, after))
    return Safe(f"{left}{displayed(text)}{right}")


def _truncate(value: object, length: int) -> str:
    return _text(value)[: max(_number(length), 0)]


def _len(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, dict | list | tuple):
        return len(value)
    raise WrongArgument(f'"{displayed(value)}" has no length')


def _index(value: object, *keys: object) -> object:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(_text(key), "")
        elif isinstance(value, list | tuple):
            if not 0 <= _number(key) < len(value):
                message = f"index {displayed(key)} is out of range: the length is {len(value)}"
                raise WrongArgument(message)
            value = value[_number(key)]
        else:
            raise WrongArgument(f'cannot index "{displayed(value)}" with {displayed(key)}')
    return value


def _slice(value: object, *ends: object) -> object:
    if not isinstance(value, str | list):
        raise WrongArgument(f'"{displayed(value)}" cannot be sliced')
    begin, end = [*map(_number, ends), *(0, len(value))[len(ends) :]]
    if not 0 <= begin <= end <= len(value):
        raise WrongArgument(f"{begin} to {end} is out of range: the length is {len(value)}")
    return value[begin:end]


def _print(*values: object) -> Safe:
    text = ""
    for index, value in enumerate(values):
        apart = index and not isinstance(value, str) and not isinstance(values[index - 1], str)
        text += f"{' ' if apart else ''}{_inner(value)}"
    return Safe(text)


def _println(*values: object) -> Safe:
    return Safe(" ".join(map(_inner, values)) + "\n")


def _printf(form: object, *values: object) -> Safe:
    rest = list(values)

    def one(verb: re.Match[str]) -> str:
        flags, width, precision, letter = verb.groups()
        if letter == "%":
            return "%"
        if width == "*":
            raise WrongArgument(f'the verb "{verb[0]}" is not supported')
        if not rest:
            return f"%!{letter}(MISSING)"
        text = _verb(letter, rest.pop(0), flags, precision)
        return _padded(text, flags, min(int(width or 0), _WIDEST))

    text = _VERB.sub(one, displayed(_text(form)))
    if rest:
        text += f"%!(EXTRA {', '.join(f'{_kind(one)}={_inner(one)}' for one in rest)})"
    return Safe(text)


def _verb(letter: str, value: object, flags: str, precision: str | None) -> str:
    """Format ``value`` with the ``printf`` verb ``letter``, without padding."""
    digits = min(int(precision), _WIDEST) if precision else 0
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if letter == "v" or (letter == "s" and not number and not isinstance(value, bool)):
        text = _inner(value)
        return text[:digits] if precision and isinstance(value, str) else text
    if letter == "q" and isinstance(value, str):
        return _json(str(value))
    if letter == "q" and isinstance(value, list):
        return f"[{' '.join(_json(one) for one in value)}]"
    if letter == "t" and isinstance(value, bool):
        return displayed(value)
    if letter in "xX" and isinstance(value, str):
        return format(value.encode("utf-8", "surrogateescape").hex(), "").translate(
            str.maketrans("abcdef", "ABCDEF") if letter == "X" else {}
        )
    if letter in "dxXob" and isinstance(value, int) and number:
        return format(value, ("+" if "+" in flags else "") + ("#" if "#" in flags else "") + letter)
    if letter in "feEgG" and isinstance(value, float):
        places = f".{digits}" if precision else ("" if letter in "gG" else ".6")
        return format(value, ("+" if "+" in flags else "") + places + letter)
    return f"%!{letter}({_kind(value)}={_inner(value)})"


def _padded(text: str, flags: str, width: int) -> str:
    if "-" in flags:
        return text.ljust(width)
    return text.zfill(width) if "0" in flags else text.rjust(width)


def _kind(value: object) -> str:
    """Return the name of a value's type in Go."""
    names = ((bool, "bool"), (int, "int"), (float, "float64"), (str, "string"), (list, "[]string"))
    return next((name for kind, name in names if isinstance(value, kind)), "map")


def _comparable(first: object, second: object) -> None:
    kinds = ((bool,), (int, float), (str,), (type(None),))
    for kind in kinds:
        if isinstance(first, kind) or isinstance(second, kind):
            if isinstance(first, kind) and isinstance(second, kind):
                return
            break
    raise WrongArgument(f'cannot compare "{displayed(first)}" with "{displayed(second)}"')


def _equal(first: object, *others: object) -> bool:
    if not others:
        raise WrongArgument("wrong number of arguments")
    for other in others:
        if first is not None and other is not None:
            _comparable(first, other)
        if first == other:
            return True
    return False


def _not_equal(first: object, second: object) -> bool:
    return not _equal(first, second)


def _less(first: Any, second: Any) -> bool:  # noqa: ANN401 - numbers or strings
    _comparable(first, second)
    if first is None or isinstance(first, bool):
        raise WrongArgument(f'cannot compare "{displayed(first)}" by size: use numbers or strings')
    return bool(first < second)


FUNCTIONS: dict[str, Callable[..., object]] = {
    "not": lambda value: not value,
    "len": _len,
    "index": _index,
    "slice": _slice,
    "print": _print,
    "printf": _printf,
    "println": _println,
    "eq": _equal,
    "ne": _not_equal,
    "lt": _less,
    "le": lambda first, second: not _less(second, first),
    "gt": lambda first, second: _less(second, first),
    "ge": lambda first, second: not _less(first, second),
    "json": _json,
    "split": _split,
    "join": _join,
    "title": _same_kind(_title),
    "lower": _same_kind(str.lower),
    "upper": _same_kind(str.upper),
    "pad": _pad,
    "truncate": _truncate,
}


def _unchanged(value: object, *args: object) -> object:
    del args
    return value


# For a table's header: functions that would change a title return it unchanged.
HEADER_FUNCTIONS: dict[str, Callable[..., object]] = {
    **FUNCTIONS,
    **dict.fromkeys(
        ("json", "title", "lower", "upper", "truncate", "join", "split", "len", "index", "slice"),
        _unchanged,
    ),
}
