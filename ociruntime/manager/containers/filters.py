"""Filters of lists: names of filters with values, as clients send them, checked by a table.

What is listed must match one value of every filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import BadRequest

Answer = dict[str, Any]
Given = Mapping[str, list[str]]

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _any_value(where: str, value: str) -> None:
    del where, value


@dataclass(frozen=True)
class Filter:
    """A filter: whether an answer matches a value, and which values can match at all.

    ``check`` gets the JSON path and the value, and raises BadRequest.
    """

    matches: Callable[[Answer, str], bool]
    check: Callable[[str, str], None] = _any_value


Table = Mapping[str, Filter]


def check_filters(given: Given, table: Table) -> None:
    """Raise BadRequest for an unknown filter, or a value that nothing can match."""
    for name, values in given.items():
        if name not in table:
            raise BadRequest(f"filters.{name}", "unknown filter", ", ".join(table))
        for value in values:
            table[name].check(f"filters.{name}", value)


def passes(one: Answer, given: Given, table: Table) -> bool:
    """Return whether an answer matches one value of every filter."""
    return all(any(table[name].matches(one, value) for value in given[name]) for name in given)


def _check_boolean(where: str, value: str) -> None:
    """Check that a value is ``true`` or ``false``.  Raises BadRequest."""
    if value not in _BOOLEANS:
        raise BadRequest(where, f'must be true or false, not "{value}"')


def _has_label(one: Answer, text: str) -> bool:
    """Return whether an answer has the label ``NAME`` or ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    labels = one["labels"]
    return name in labels and (not equals or labels[name] == value)


NAME = Filter(lambda one, value: value in one["name"])
LABEL = Filter(_has_label)
# Whether no container uses it.
DANGLING = Filter(lambda one, value: _BOOLEANS[value] != bool(one["containers"]), _check_boolean)
