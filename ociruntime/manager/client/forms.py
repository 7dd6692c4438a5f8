"""Output formats: ``--format json``, ``table COLUMN,...`` or ``{{.Field}}``; pure.

Field names ignore case and underscores: ``ExitCode``, ``exit_code`` and ``EXIT_CODE`` are the same.
A dot separates nested fields: ``RestartPolicy.Name``.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.formats import tabbed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Row = dict[str, Any]

# Objects with keys chosen by the user: a missing key is empty, not an unknown field.
_FREE = ("addresses", "attributes", "config", "env", "labels", "spec")
_ESCAPES = {"\\t": "\t", "\\n": "\n"}


class Pairs(dict[str, str]):
    """An object that prints as ``a=1,b=2`` and whose keys can be used as fields."""


def formatted(rows: Sequence[Row], form: str) -> str:
    """Format rows.  Raises UsageError if the format or a field in it is unknown."""
    if form == "json":
        import json

        return json.dumps(rows, separators=(",", ":")) + "\n"
    if form.startswith("table "):
        names = form.removeprefix("table ").replace(" ", "").split(",")
        titles = [title(name) for name in names]
        return tabbed([titles, *([text(field(row, name)) for name in names] for row in rows)])
    if "{{" in form:
        parts = template(form)
        return "".join(filled(parts, row) + "\n" for row in rows)
    raise UsageError(
        f'--format: unknown format "{form}"', "json, table COLUMN,COLUMN or text with {{.Field}}"
    )


def template(form: str) -> list[tuple[str, str]]:
    """Parse a template into pairs (text, name of the field after it or "").  Raises UsageError."""
    for escape, character in _ESCAPES.items():
        form = form.replace(escape, character)
    parts = []
    rest = form
    while "{{" in rest:
        before, _, rest = rest.partition("{{")
        inside, end, rest = rest.partition("}}")
        name = inside.strip()
        if not end or not name.startswith(".") or not name[1:]:
            raise UsageError(f'--format: invalid field "{{{{{inside}{end}"', "{{.Field}}")
        parts.append((before, name[1:]))
    return [*parts, (rest, "")]


def filled(parts: list[tuple[str, str]], row: Row) -> str:
    """Fill a template with the fields of one row.  Raises UsageError."""
    return "".join([before + (text(field(row, name)) if name else "") for before, name in parts])


def field(row: Row, name: str) -> object:
    """Return a field's value; "" for a missing key of ``_FREE``.  Raises UsageError."""
    value: object = row
    free = False
    words = name.split(".")
    for index, word in enumerate(words):
        table = value if isinstance(value, dict) else {}
        whole = ".".join(words[index:])
        if free and whole in table:  # a user's key may contain dots
            return table[whole]
        known = {plain_name(key): key for key in table}
        if plain_name(word) not in known:
            if free and isinstance(value, dict):
                return ""
            raise UsageError(f'--format: unknown field "{name}"', ", ".join(sorted(row)))
        value = table[known[plain_name(word)]]
        free = plain_name(word) in _FREE
    return value


def plain_name(name: str) -> str:
    """Normalise a field name: no case, underscores or dashes."""
    return name.replace("_", "").replace("-", "").lower()


def title(name: str) -> str:
    """Return a column's title: ``EXIT CODE`` for ``exit_code`` or ``ExitCode``."""
    spaced = ""
    for index, letter in enumerate(name):
        follows = index > 0 and letter.isupper() and name[index - 1].islower()
        spaced += f" {letter}" if follows else letter
    return spaced.replace("_", " ").replace(".", " ").upper()


def text(value: object) -> str:
    """Format a value for a cell or a template."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Pairs):
        return plain(",".join(f"{name}={one}" for name, one in value.items()))
    if isinstance(value, dict | list):
        import json

        return json.dumps(value, separators=(",", ":"))
    return plain(str(value))
