"""Durations in, tables and times out."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write_lines
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.commandline.times import ago, date
from ociruntime.pods.cli.durations import FOREVER, period, timeout
from ociruntime.pods.cli.options import PROGRAM
from ociruntime.pods.cli.pods import networks, pod_rows


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("2s", 2),
        ("1h30m", 5400),
        ("0s", 0),
        ("0", 0),
        ("1.5h", 5400),
        ("100ms", 0.1),
        ("+1s", 1),
        ("1h0m0s", 3600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert period(text, "grace-period") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1x", "1 s", "1..5s", ".s", "-", "--1s", "1s-", "1e3s", "true", "9" * 20]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        period(text, "grace-period")


def test_a_period_is_not_negative() -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        period("-1s", "grace-period")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0), ("false", 0), ("0", 0), ("true", FOREVER), ("-1s", FOREVER), ("10s", 10)],
)
def test_timeout(text: str, seconds: float) -> None:
    assert timeout(text, "wait") == seconds


def test_an_option_with_a_value_or_without() -> None:
    table = PROGRAM.command("status").options
    for argv, value in ((["--wait", "u"], "true"), (["--wait=5s", "u"], "5s"), (["u"], "")):
        arguments = Arguments()
        parse(argv, (table,), arguments)
        assert (arguments.text("wait"), arguments.positional) == (value, ["u"])


def test_columns_by_tabs() -> None:
    rows = [["UUID", "APP", "STATE"], ["12345678", "a", "x"], ["", "", "y"]]
    assert tabbed(rows) == "UUID\t\tAPP\tSTATE\n12345678\ta\tx\n\t\t\ty\n"
    assert tabbed([]) == ""


@pytest.mark.parametrize(
    ("passed", "text"),
    [(0, "now"), (1, "1 second ago"), (125, "2 minutes ago"), (7200, "2 hours ago"),
     (90000, "1 day ago"), (40000000, "1 year ago"), (-5, "now")],
)  # fmt: skip
def test_ago(passed: int, text: str) -> None:
    assert ago(1000, 1000 + passed) == text


def test_no_time() -> None:
    assert (ago(None), date(None)) == ("", "")


def test_further_apps_leave_the_pods_cells_empty() -> None:
    apps = [
        {"name": "a", "image_name": "one", "image_id": "sha256:12"},
        {"name": "b", "image_id": "sha256:" + "3" * 64},
    ]
    nets = [{"name": "default", "ip4": "172.16.28.2"}, {"name": "six", "ip6": "fd00::2"}]
    nets.append({"name": "left"})
    pod = {"name": "0" * 36, "state": "running", "apps": apps, "networks": nets}
    addresses = "default:ip4=172.16.28.2, six:ip6=fd00::2, left"
    assert networks(pod) == addresses
    assert pod_rows(pod, full=False) == [
        ["00000000", "a", "one", "running", "", "", addresses],
        ["", "b", "sha256:333333333333", "", "", "", ""],
    ]
    assert pod_rows(pod | {"apps": []}, full=True) == [
        ["0" * 36, "-", "-", "-", "running", "", "", addresses]
    ]


def test_cells_and_lines_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    rows = tabbed([["A", "B"], ["a\n\tb", "\x1b[2J\u202e"]])
    assert rows == "A\tB\na\\n\\tb\t\\x1b[2J\\u202e\n"
    write_lines(["a=\n\udcff", "b"])
    assert capfd.readouterr().out == "a=\\n\\udcff\nb\n"
