"""``--format``: forms, fields and errors."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.format_option import formatted, title
from ociruntime.manager.client.template_functions import Pairs, Shape

ROWS: list[dict[str, Any]] = [
    {"name": "web", "exit_code": None, "restart_policy": {"name": "no", "maximum": 0}, "rm": True},
    {"name": "a\x1b[1m", "exit_code": 3, "restart_policy": {"name": "always"}, "rm": False},
]


def test_json() -> None:
    assert formatted(ROWS[:1], "json") == (
        '[{"name":"web","exit_code":null,"restart_policy":{"name":"no","maximum":0},"rm":true}]\n'
    )
    assert formatted([], "json") == "[]\n"


def test_a_table_of_chosen_columns() -> None:
    assert formatted(ROWS, "table Name, ExitCode,RestartPolicy.Name") == (
        "NAME\t\tEXIT CODE\tRESTART POLICY NAME\nweb\t\t\t\tno\na\\x1b[1m\t3\t\talways\n"
    )


@pytest.mark.parametrize("name", ["ExitCode", "exit_code", "EXIT_CODE", "exit-code", "exitcode"])
def test_a_field_has_many_spellings(name: str) -> None:
    assert formatted(ROWS[1:], f"{{{{.{name}}}}}") == "3\n"


def test_a_template() -> None:
    assert formatted(ROWS[:1], "{{.Name}}") == "web\n"
    assert formatted(ROWS, r"<{{ .Rm }}>\t{{.ExitCode}}.") == "<true>\t.\n<false>\t3.\n"
    assert formatted(ROWS[:1], "{{.RestartPolicy}}") == "{no 0}\n"
    assert formatted(ROWS[:1], "{{json .RestartPolicy}}") == '{"name":"no","maximum":0}\n'
    assert formatted(ROWS[:1], r"{{.Name}}\t", escapes=False) == "web\\t\n"


def test_a_table_from_a_template() -> None:
    rows = [
        Shape({"Names": "web", "ID": "ab"}, methods={"Label": lambda name: name[-1]}),
        Shape({"Names": "a-long-name", "ID": "c\x1b"}, methods={"Label": lambda _: ""}),
    ]
    form = r'table {{.Names}}\t{{upper .ID}}\t{{.Label "com.example.the_tier"}}'
    assert formatted(rows, form, {"ID": "CONTAINER ID"}) == (
        "NAMES         CONTAINER ID   the tier\n"
        "web           AB             r\n"
        "a-long-name   C\\x1b\n"
    )
    assert formatted([], "table {{.Names}}") == "NAMES\n"
    assert formatted([], "table {{.RestartPolicy.Name}}") == "RESTART POLICY NAME\n"


def test_a_key_that_one_of_them_lacks_is_empty() -> None:
    """Keys of labels are arbitrary; a field that no row can have is refused."""
    rows: list[dict[str, Any]] = [
        {"name": "a", "labels": {"tier": "front"}, "addresses": {"default": "10.1.0.2"}},
        {"name": "b", "labels": {}, "addresses": {}},
    ]
    form = "{{.Name}} {{.Labels.tier}} {{.Addresses.Default}}."
    assert formatted(rows, form) == "a front 10.1.0.2.\nb  .\n"
    assert formatted(rows, "table Name,Labels.tier") == "NAME\tLABELS TIER\na\tfront\nb\t\n"
    dotted = [{"labels": Pairs({"com.example.tier": "back", "b": "1"})}]
    assert formatted(dotted, "{{.Labels.com.example.tier}}") == "back\n"
    assert formatted(dotted, "{{.Labels}}") == "com.example.tier=back,b=1\n"
    for wrong in ("{{.Lables.tier}}", "{{.Labels.tier.x}}", "{{.Name.x}}"):
        with pytest.raises(UsageError, match="unknown field"):
            formatted(rows, wrong)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("xml", 'unknown format "xml"'),
        ("table Nmae", 'unknown field "Nmae" (available: exit_code, name,'),
        ("{{.Name.First}}", 'unknown field "Name.First"'),
        ("{{Name}}", 'unknown function "Name"'),
        ("{{.Name", "character 1: the action "),
        ("table {{.Nmae}}", 'unknown field "Nmae"'),
    ],
)
def test_what_is_no_form(form: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        formatted(ROWS, form)
    assert words in str(caught.value)


def test_titles() -> None:
    assert [title(name) for name in ("ID", "ExitCode", "exit_code")] == [
        "ID",
        "EXIT CODE",
        "EXIT CODE",
    ]
