"""``--format``: forms, fields and errors."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.forms import Pairs, field, formatted, title

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
    assert field(ROWS[1], name) == 3


def test_a_template() -> None:
    assert formatted(ROWS[:1], "{{.Name}}") == "web\n"
    assert formatted(ROWS, r"<{{ .Rm }}>\t{{.ExitCode}}.") == "<true>\t.\n<false>\t3.\n"
    assert formatted(ROWS[:1], "{{.RestartPolicy}}") == '{"name":"no","maximum":0}\n'


def test_a_key_that_one_of_them_lacks_is_empty() -> None:
    """Keys of addresses and labels are free; a name that no row can have is refused."""
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
        ("table Nmae", 'unknown field "Nmae" (exit_code, name,'),
        ("{{.Name.First}}", 'unknown field "Name.First"'),
        ("{{Name}}", 'invalid field "{{Name}}"'),
        ("{{.Name", 'invalid field "{{.Name"'),
        ("{{.}}", 'invalid field "{{.}}"'),
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
