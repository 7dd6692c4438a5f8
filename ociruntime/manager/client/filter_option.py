"""The option ``--filter`` of commands that list or remove objects."""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import UsageError

# Filter in docker -> filter in ocid (manager/containers/container_filters.py), if they differ.
_RENAMED = {"ancestor": "image"}


def as_query(filters: Sequence[str], known: Sequence[str]) -> str | None:
    """Convert values ``KEY=VALUE`` of ``--filter`` to JSON text, ``{"KEY": ["VALUE"]}``.

    Returns None if ``filters`` is empty.  ``known`` lists the valid keys.  Raises UsageError for an
    unknown key or a missing value.
    """
    import json

    lists = as_lists(filters, known)
    return json.dumps(lists) if lists else None


def as_lists(filters: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """Convert values ``KEY=VALUE`` of ``--filter`` to ``{key: [values]}``.

    ``known`` lists the valid keys.  Raises UsageError for an unknown key or a missing value.
    """
    lists: dict[str, list[str]] = {}
    for text in filters:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f'--filter: the filter "{text}" has no value', "use KEY=VALUE")
        if key not in known:
            hint = f"supported: {', '.join(known)}"
            raise UsageError(f'--filter: unknown filter "{key}"', hint)
        lists.setdefault(_RENAMED.get(key, key), []).append(value)
    return lists
