"""How an answer is written: ``--format json``, ``table COLUMN,...`` or ``{{.Field}}``; pure.

A field is named in any case and with or without underscores, as ``ExitCode``, ``exit_code`` or
``EXIT_CODE``; one inside another with a point between: ``RestartPolicy.Name``.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.columns import tabbed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Row = dict[str, Any]

# Tables whose keys are the user's: one that is not there is empty, like a member left out of spec.
_FREE = ("addresses", "attributes", "env", "labels", "spec")
_ESCAPES = {"\\t": "\t", "\\n": "\n"}


class Pairs(dict[str, str]):
    """A table that is ``a=1,b=2`` as a whole, and has its keys as fields."""


def formatted(rows: Sequence[Row], form: str) -> str:
    """The rows in that form.  Raises UsageError: it is none, or names a field that is not there."""
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
        f'--format: not a form: "{form}"', "json, table COLUMN,COLUMN or {{.Field}} in any text"
    )


def template(form: str) -> list[tuple[str, str]]:
    """Pairs of a text and the name of the field behind it ("" at the end).  Raises UsageError."""
    for written, meant in _ESCAPES.items():
        form = form.replace(written, meant)
    parts = []
    rest = form
    while "{{" in rest:
        before, _, rest = rest.partition("{{")
        inside, end, rest = rest.partition("}}")
        name = inside.strip()
        if not end or not name.startswith(".") or not name[1:]:
            raise UsageError(f'--format: cannot understand "{{{{{inside}{end}"', "{{.Field}}")
        parts.append((before, name[1:]))
    return [*parts, (rest, "")]


def filled(parts: list[tuple[str, str]], row: Row) -> str:
    """The text of a template for one row.  Raises UsageError."""
    return "".join([before + (text(field(row, name)) if name else "") for before, name in parts])


def field(row: Row, name: str) -> object:
    """The value of that name; empty if a table of free keys lacks it.  Raises UsageError."""
    value: object = row
    free = False
    words = name.split(".")
    for index, word in enumerate(words):
        table = value if isinstance(value, dict) else {}
        whole = ".".join(words[index:])
        if free and whole in table:  # such a key may have points of its own
            return table[whole]
        known = {plain_name(key): key for key in table}
        if plain_name(word) not in known:
            if free and isinstance(value, dict):
                return ""
            raise UsageError(f'--format: there is no field "{name}"', ", ".join(sorted(row)))
        value = table[known[plain_name(word)]]
        free = plain_name(word) in _FREE
    return value


def plain_name(name: str) -> str:
    """What names that mean the same have in common."""
    return name.replace("_", "").replace("-", "").lower()


def title(name: str) -> str:
    """Of a column: ``EXIT CODE`` for ``exit_code`` or ``ExitCode``."""
    words = ""
    for index, letter in enumerate(name):
        follows = index > 0 and letter.isupper() and name[index - 1].islower()
        words += f" {letter}" if follows else letter
    return words.replace("_", " ").replace(".", " ").upper()


def text(value: object) -> str:
    """A value in a cell or in the midst of a text."""
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
