"""Check and expand lists of CPUs and memory nodes in the format of cpuset(7): ``0-3,7``."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HIGHEST = 1 << 20


def check_list(where: str, text: str) -> None:
    """Raise ConfigError unless ``text`` is a list of CPUs or memory nodes, or empty.

    ``where`` is the JSON path of the list.
    """
    for part in text.strip().split(",") if text.strip() else ():
        # "0-30:2/4" selects the first two numbers of every four.
        numbers, colon, pattern = part.partition(":")
        first, dash, last = numbers.partition("-")
        used, slash, group = pattern.partition("/")
        well_formed = _is_number(first) and (_is_number(last) if dash else not last)
        if colon:
            well_formed = well_formed and bool(slash) and _is_number(used) and _is_number(group)
        if not well_formed:
            raise ConfigError(where, f'"{text}" is not a list of numbers', 'use the form "0-3,7"')
        if dash and int(last) < int(first):
            raise ConfigError(where, f'the range "{numbers}" is descending')


def listed_numbers(where: str, text: str) -> set[int]:
    """Return the numbers in a list of CPUs or memory nodes: {0, 1, 2, 7} for ``0-2,7``.

    ``where`` is the list's JSON path.  Raises ConfigError if the list is malformed.
    """
    check_list(where, text)
    return set(expand_list(text))


def expand_list(text: str) -> Iterator[int]:
    """Yield the numbers in a list that ``check_list`` has accepted: 0, 1, 2, 7 for ``0-2,7``."""
    for part in text.strip().split(",") if text.strip() else ():
        numbers, _, pattern = part.partition(":")
        low, _, high = numbers.partition("-")
        used, _, group = pattern.partition("/")
        first, last = int(low), int(high or low)
        for number in range(first, last + 1):
            if not pattern or (number - first) % max(int(group), 1) < int(used):
                yield number


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 9 and int(text) < _HIGHEST
