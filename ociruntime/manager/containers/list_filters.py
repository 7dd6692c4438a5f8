"""Filters of lists (``ps --filter``): check a client's filters, and match objects with them.

An object is listed if, for each filter, it matches at least one of the filter's values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import BadRequest

Answer = dict[str, Any]
Filters = Mapping[str, list[str]]

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _any_value(where: str, value: str) -> None:
    del where, value


@dataclass(frozen=True)
class Filter:
    """A filter: ``matches(answer, value)`` tests an object, ``check`` a value that a client sends.

    ``check`` gets the JSON path and the value; it raises BadRequest for a value that cannot match.
    """

    matches: Callable[[Answer, str], bool]
    check: Callable[[str, str], None] = _any_value


Table = Mapping[str, Filter]


def check_filters(filters: Filters, table: Table) -> None:
    """Check a client's filters.  Raises BadRequest for an unknown filter or an invalid value."""
    for name, values in filters.items():
        if name not in table:
            hint = f"supported: {', '.join(table)}"
            raise BadRequest(f"filters.{name}", "unknown filter", hint)
        for value in values:
            table[name].check(f"filters.{name}", value)


def passes(answer: Answer, filters: Filters, table: Table) -> bool:
    """Return whether ``answer`` matches, for each filter, at least one of its values."""
    return all(
        any(table[name].matches(answer, value) for value in values)
        for name, values in filters.items()
    )


def _check_boolean(where: str, value: str) -> None:
    """Check that a value is ``true`` or ``false``.  Raises BadRequest."""
    if value not in _BOOLEANS:
        raise BadRequest(where, f'must be true or false, not "{value}"')


def _has_label(answer: Answer, text: str) -> bool:
    """Return whether an answer has the label ``NAME`` or ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    labels = answer["labels"]
    return name in labels and (not equals or labels[name] == value)


NAME = Filter(lambda one, value: value in one["name"])
LABEL = Filter(_has_label)
# true: volumes or networks that no container uses; false: those that a container uses.
DANGLING = Filter(lambda one, value: _BOOLEANS[value] != bool(one["containers"]), _check_boolean)
