"""``--format=json`` and ``--format=json-pretty``."""

from __future__ import annotations


def as_json(value: object, form: str) -> str:
    """Return the value on one line, or indented for people; with a final line feed."""
    import json

    indent = 2 if form == "json-pretty" else None
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, indent=indent, separators=separators) + "\n"
