"""``--format=json`` and ``--format=json-pretty``."""

from __future__ import annotations


def as_json(value: object, form: str) -> str:
    """On one line, or for people; with the end of the last line."""
    import json

    indent = 2 if form == "json-pretty" else None
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, indent=indent, separators=separators) + "\n"
