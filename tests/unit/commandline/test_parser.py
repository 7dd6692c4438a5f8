"""The grammar: command lines of callers of runc and crun."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.runtime.cli.help import PROGRAM
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS

TABLE = (
    Option("bundle", "x", "DIR", short="b"),
    Option("force", "x", short="f"),
    Option("interactive", "x", short="i"),
    Option("tty", "x", short="t"),
    Option("preserve-fds", "x", "N", kind="number"),
    Option("tail", "x", "N", kind="count"),
    Option("memory-swap", "x", "N"),
    Option("format", "x", "table|json", kind="choice"),
    Option("no-pivot", "x"),
    Option("no-subreaper", "x"),
    Option("net", "x", "NAME", kind="joined"),
)


def read(*argv: str) -> Arguments:
    arguments = Arguments()
    assert parse(list(argv), (TABLE, GLOBAL_OPTIONS), arguments) == len(argv)
    return arguments


@pytest.mark.parametrize(
    "argv",
    [
        ("--bundle", "/b"),
        ("--bundle=/b",),
        ("-bundle", "/b"),
        ("-bundle=/b",),
        ("-b", "/b"),
        ("-b=/b",),
        ("-b/b",),
        ("--b", "/b"),
        ("--bun", "/b"),
        ("-itb", "/b"),
        ("-tb/b",),
        ("--bundle", "/other", "--bundle", "/b"),
    ],
)
def test_ways_to_give_a_value(argv: tuple[str, ...]) -> None:
    assert read(*argv).text("bundle") == "/b"


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (("--force",), True),
        (("-force",), True),
        (("-f",), True),
        (("--force=true",), True),
        (("--force=1",), True),
        (("-f=T",), True),
        (("--force=false",), False),
        (("-f=0",), False),
        (("--force", "--force=false"), False),
        ((), False),
    ],
)
def test_ways_to_give_a_boolean(argv: tuple[str, ...], value: bool) -> None:
    assert read(*argv).flag("force") is value


def test_boolean_takes_no_word_that_follows() -> None:
    arguments = read("--force", "false")
    assert arguments.flag("force") is True
    assert arguments.positional == ["false"]


def test_bundled_shorts() -> None:
    arguments = read("-it")
    assert arguments.flag("interactive")
    assert arguments.flag("tty")


def test_single_dash_long_name_wins_over_bundled_shorts() -> None:
    assert read("-no-subreaper").flags == {"no-subreaper": True}


def test_options_stand_anywhere() -> None:
    arguments = read("ID", "--force", "KILL", "-b", "/b")
    assert arguments.positional == ["ID", "KILL"]
    assert arguments.flag("force")
    assert arguments.text("bundle") == "/b"


def test_double_dash_ends_options() -> None:
    arguments = read("--force", "--", "--bundle", "-x")
    assert arguments.positional == ["--bundle", "-x"]
    assert arguments.flag("force")


def test_value_may_look_like_an_option() -> None:
    arguments = read("--memory-swap", "-1", "--preserve-fds", "-2", "--bundle", "--force")
    assert arguments.text("memory-swap") == "-1"
    assert arguments.number("preserve-fds") == -2
    assert arguments.text("bundle") == "--force"
    assert not arguments.flag("force")


def test_value_may_be_empty_or_hold_an_equals_sign() -> None:
    assert read("--bundle=").texts == {"bundle": ""}
    assert read("--bundle", "").texts == {"bundle": ""}
    assert read("--bundle=a=b").text("bundle") == "a=b"


def test_dash_and_negative_number_are_arguments() -> None:
    assert read("-", "-1", "").positional == ["-", "-1", ""]


def test_global_options_after_the_command() -> None:
    arguments = read("--root", "/r", "ID", "--systemd-cgroup")
    assert arguments.text("root") == "/r"
    assert arguments.flag("systemd-cgroup")


def test_first_table_decides() -> None:
    spec = PROGRAM.command("spec")
    arguments = Arguments()
    parse(["--rootless"], (spec.options, GLOBAL_OPTIONS), arguments)
    assert arguments.flag("rootless")
    arguments = Arguments()
    parse(["--rootless", "true"], (GLOBAL_OPTIONS,), arguments)
    assert arguments.text("rootless") == "true"


@pytest.mark.parametrize(
    ("argv", "value"),
    [((), ""), (("--net",), "true"), (("--net=a",), "a"), (("--net=a", "--net=b"), "a,b")],
)
def test_joined_values(argv: tuple[str, ...], value: str) -> None:
    assert read(*argv).text("net") == value


def test_errors_for_users() -> None:
    for argv, option, hint in (
        (["--bundle"], "--bundle", "--bundle DIR"),
        (["--force=maybe"], "--force", "true or false"),
        (["--preserve-fds", "two"], "--preserve-fds", "a decimal number"),
        (["--tail", "-1"], "--tail", ""),
        (["--format=xml"], "--format", "table or json"),
        (["--bogus"], "--bogus", "--help"),
        (["-tb"], "-b", "--bundle DIR"),
        (["-tx"], "-x", "--help"),
        (["--b=/b"], "--b", "--help"),
        (["--bun=/b"], "--bun", "--bundle"),
        (["--pid=host"], "--pid", "leave it out"),
        (["--pid"], "--pid", "leave it out"),
    ):
        refused = Option("pid", value="leave it out", kind="refused")
        with pytest.raises(UsageError) as caught:
            parse(argv, ((*TABLE, refused),), Arguments(as_runc=False))
        assert option in re.split("[ :]", caught.value.message)
        assert hint in caught.value.hint


def test_values_glued_to_a_letter_as_docker_takes_them() -> None:
    arguments = Arguments(as_runc=False)
    parse(["-tbdir", "-bA=1"], (TABLE,), arguments)
    assert arguments.text("bundle") == "A=1"


def test_unmixed_reading_stops_at_the_first_argument() -> None:
    arguments = Arguments()
    argv = ["--root", "/r", "state", "--bogus"]
    assert parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False) == 2
    assert arguments.positional == []
    assert parse(["--", "x"], (GLOBAL_OPTIONS,), Arguments(), mixed=False) == 1
    assert parse(["--debug"], (GLOBAL_OPTIONS,), Arguments(), mixed=False) == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--bundle",), "argument: -bundle"),
        (("-b",), "argument: -b"),
        (("-tb",), "argument: -b"),
        (("--log",), "argument: -log"),
        (("--bogus",), "not defined: -bogus"),
        (("-bogus",), "not defined: -bogus"),
        (("-tx",), "not defined: -tx"),
        (("--bogus=1",), "not defined: -bogus"),
        (("--=x",), "not defined: -"),
        (("--no",), "not defined: -no"),
        (("--force=maybe",), 'invalid boolean value "maybe" for -force'),
        (("--preserve-fds", "two"), 'invalid value "two" for flag -preserve-fds'),
        (("--preserve-fds", "1_0"), 'invalid value "1_0" for flag -preserve-fds'),
        (("--preserve-fds", "9" * 5000), "invalid value"),
        (("--format", "xml"), 'invalid format: "xml"'),
    ],
)
def test_mistakes(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(*argv)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("--bundel", "--bundle"), ("--forse", "--force"), ("--sytemd-cgroup", "--systemd-cgroup")],
)
def test_near_miss_is_answered_with_the_name(written: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(written)
    assert caught.value.hint == f"did you mean {meant}?"


def test_what_was_understood_before_a_mistake_is_kept() -> None:
    arguments = Arguments()
    with pytest.raises(UsageError):
        parse(["--log", "/l", "--bogus"], (GLOBAL_OPTIONS,), arguments)
    assert arguments.text("log") == "/l"


WORDS = st.sampled_from(
    ["-", "--", "--=", "-=", "-b", "--bundle", "--force=", "-fit", "-ib/x", "x", "-1", "--no-"]
)


@given(st.lists(WORDS | st.text(max_size=6) | st.text(max_size=4).map("-{}".format)))
def test_any_line_is_read_or_refused(argv: list[str]) -> None:
    arguments = Arguments()
    try:
        end = parse(argv, (TABLE, GLOBAL_OPTIONS), arguments)
    except UsageError:
        return
    assert end == len(argv)
    assert len(arguments.positional) <= len(argv)


@given(st.lists(st.text().filter(lambda word: not word.startswith("-")), max_size=5))
def test_arguments_come_through_unchanged(words: list[str]) -> None:
    assert read("--force", *words).positional == words
    assert read("--", *words).positional == words
