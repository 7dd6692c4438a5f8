"""The option ``--format``: ``json``, ``table ...`` or a template (``templates.py``).

``table`` is followed by column names, as in ``table Name,Status``, or by a template with tabs
between the columns.  Case and underscores in field names are ignored: ``ExitCode``, ``exit_code``
and ``EXIT_CODE`` are the same field.  A dot separates nested fields: ``RestartPolicy.Name``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.tables_and_times import aligned, tabbed
from ociruntime.manager.client.template_functions import HEADER_FUNCTIONS, Keys, Shape

Row: TypeAlias = dict[str, Any]

TABLE = "table"  # without columns: the command's default table
# Objects whose keys users choose: a missing key prints nothing, and is not an unknown field.
_FREE = ("addresses", "attributes", "config", "details", "env", "labels", "spec")
_GAP = 3  # spaces between the columns of a table from a template, as in docker
_NARROWEST = 10  # minimum width, in characters, of a column of a table from a template


def chosen(arguments: Arguments) -> str:
    """Return the value of the option ``--format``; "" means the command's default table."""
    form = arguments.text("format")
    return "" if form == TABLE else form


def formatted(
    rows: Sequence[Row],
    form: str,
    titles: Mapping[str, str] | None = None,
    *,
    escapes: bool = True,
) -> str:
    r"""Return ``rows`` as text in the format ``form``, a value of ``--format``.

    ``titles`` maps fields to titles of columns; the title of any other field is ``title(field)``.
    With ``escapes``, ``\t`` and ``\n`` in a template are a tab and a line break.

    Raises UsageError for an unknown format or an invalid template.
    """
    if form == "json":
        import json

        return json.dumps(rows, separators=(",", ":")) + "\n"
    kind, _, rest = form.partition(" ")
    if kind == TABLE and "{{" in rest:
        return _template_table(rows, rest.strip(), titles or {})
    if kind == TABLE and rest:
        return _table(rows, rest.replace(" ", "").split(","), titles or {})
    if "{{" in form:
        from ociruntime.manager.client.templates import parse, render

        nodes = parse(form, escapes=escapes)
        return "".join(f"{render(nodes, marked(row))}\n" for row in rows)
    hint = "use json, table COLUMN,COLUMN or text with {{.Field}}"
    raise UsageError(f'--format: unknown format "{form}"', hint)


def _table(rows: Sequence[Row], names: list[str], titles: Mapping[str, str]) -> str:
    from ociruntime.manager.client.templates import parse, render

    header = [titles.get(name) or title(name) for name in names]
    columns = [parse(f"{{{{.{name}}}}}") for name in names]
    return tabbed([header, *([render(column, marked(row)) for column in columns] for row in rows)])


def _template_table(rows: Sequence[Row], text: str, titles: Mapping[str, str]) -> str:
    from ociruntime.manager.client.templates import parse, render

    nodes = parse(text, escapes=True)
    header = render(nodes, _Header(titles), HEADER_FUNCTIONS)
    lines = [header, *(render(nodes, marked(row)) for row in rows)]
    cells = [line.split("\t") for line in lines]
    count = max(map(len, cells))
    padded = [[*line, *[""] * (count - len(line))] for line in cells]
    return aligned(padded, gap=_GAP, narrowest=_NARROWEST)


class _Header(Keys):
    """The data with which a template prints a table's header: each field's value is its title."""

    def __missing__(self, name: str) -> object:
        return _title_of_label if name == "Label" else title(name)

    def __contains__(self, name: object) -> bool:
        return True


def _title_of_label(name: str) -> str:
    """Return the title that docker prints for a column with ``{{.Label NAME}}``."""
    return name.rpartition(".")[2].replace("-", " ").replace("_", " ")


def marked(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of the JSON document ``value``, to be the data of a template.

    In the copy, the members with a name in ``_FREE``, such as ``labels``, are ``Keys`` objects,
    because users choose their keys.
    """
    if isinstance(value, Shape):
        return Shape(value, marked(value.own), value.methods)
    if isinstance(value, list):
        return [marked(one) for one in value]
    if not isinstance(value, dict) or isinstance(value, Keys):
        return value
    return {
        name: _free(marked(one)) if name in _FREE else marked(one) for name, one in value.items()
    }


def _free(value: Any) -> Any:  # noqa: ANN401 - JSON
    return Keys(value) if isinstance(value, dict) and not isinstance(value, Keys) else value


def title(name: str) -> str:
    """Return the title of a field's column: ``EXIT CODE`` for ``exit_code`` or ``ExitCode``."""
    spaced = ""
    for index, letter in enumerate(name):
        follows = index > 0 and letter.isupper() and name[index - 1].islower()
        spaced += f" {letter}" if follows else letter
    return spaced.replace("_", " ").replace(".", " ").upper()
