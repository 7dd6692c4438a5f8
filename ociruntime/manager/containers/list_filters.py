"""Filters for lists, such as ``ps --filter``: check a client's filters and apply them.

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
    """A filter that a list of objects supports, such as ``label``.

    ``matches(answer, value)`` returns whether the object whose JSON is ``answer`` matches
    ``value``, one of the filter's values.  ``check(json_path, value)`` raises BadRequest for an
    invalid value.
    """

    matches: Callable[[Answer, str], bool]
    check: Callable[[str, str], None] = _any_value


Table = Mapping[str, Filter]


def check_filters(filters: Filters, table: Table) -> None:
    """Check a client's ``{filter: values}`` against ``table``, the known filters.

    Raises BadRequest for an unknown filter or an invalid value.
    """
    for name, values in filters.items():
        if name not in table:
            hint = f"supported: {', '.join(table)}"
            raise BadRequest(f"filters.{name}", f'unknown filter "{name}"', hint)
        for value in values:
            table[name].check(f"filters.{name}", value)


def passes(answer: Answer, filters: Filters, table: Table) -> bool:
    """Return whether an object matches at least one value of each of ``filters``.

    ``answer`` is the object's JSON, ``table`` contains the definition of each filter.
    """
    return all(
        any(table[name].matches(answer, value) for value in values)
        for name, values in filters.items()
    )


def _check_boolean(where: str, value: str) -> None:
    """Raise BadRequest if ``value`` is not ``true``, ``false``, ``1`` or ``0``."""
    if value not in _BOOLEANS:
        raise BadRequest(where, f'must be true or false, not "{value}"')


def _has_label(answer: Answer, text: str) -> bool:
    """Return whether an object has the label ``text``: ``NAME`` or ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    labels = answer["labels"]
    return name in labels and (not equals or labels[name] == value)


NAME = Filter(lambda one, value: value in one["name"])
LABEL = Filter(_has_label)
# true matches volumes or networks that no container uses, false the rest.
DANGLING = Filter(lambda one, value: _BOOLEANS[value] != bool(one["containers"]), _check_boolean)
