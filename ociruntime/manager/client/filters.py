"""``--filter KEY=VALUE`` as the daemon is asked."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# The daemon's word for it.
_MEANT = {"ancestor": "image"}


def as_query(words: Sequence[str], known: Sequence[str]) -> str | None:
    """A JSON object of lists; None without a filter.  Raises UsageError."""
    import json

    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f'--filter: "{word}" has no value', "KEY=VALUE")
        if key not in known:
            raise UsageError(f'--filter: unknown key "{key}"', ", ".join(known))
        found.setdefault(_MEANT.get(key, key), []).append(value)
    return json.dumps(found) if found else None
