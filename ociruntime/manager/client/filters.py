"""Translation of ``--filter KEY=VALUE`` into the daemon's query."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# docker's key -> the daemon's, where they differ.
_RENAMED = {"ancestor": "image"}


def as_query(words: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the filters as a JSON object of lists; None without filters.  Raises UsageError."""
    import json

    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f'--filter: "{word}" has no value', "KEY=VALUE")
        if key not in known:
            raise UsageError(f'--filter: unknown key "{key}"', ", ".join(known))
        found.setdefault(_RENAMED.get(key, key), []).append(value)
    return json.dumps(found) if found else None
