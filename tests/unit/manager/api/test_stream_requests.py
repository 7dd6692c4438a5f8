"""Requests for streams are validated before anything is done."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ociruntime.base.errors import BadRequest
from ociruntime.manager.api.attach import _size, control, window_size
from ociruntime.manager.api.exec_route import MEMBERS, check, exec_args
from ociruntime.manager.api.images import _PULL
from ociruntime.manager.api.logs import LogFilter, parse_query
from ociruntime.pods.store.log_reader import Line
from tests.support import project

PAGE = (project.ROOT / "docs" / "manager.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ([], "exec request"),
        ({}, "command"),
        ({"command": []}, "command"),
        ({"command": "sh"}, "command"),
        ({"command": ["sh", 1]}, "command"),
        ({"command": ["s\0h"]}, "command"),
        ({"command": ["s\ud800h"]}, r"command\[0\]: "),
        ({"command": ["sh"], "env": ["A=\0"]}, "env"),
        ({"command": ["sh"], "env": ["A=\ud800"]}, "env"),
        ({"command": ["sh"], "user": "0\0"}, "user: "),
        ({"command": ["sh"], "working_dir": "/\udbff"}, "working_dir"),
        ({"command": ["sh"], "env": ["A"]}, "env"),
        ({"command": ["sh"], "env": ["=b"]}, "env"),
        ({"command": ["sh"], "tty": "yes"}, "tty"),
        ({"command": ["sh"], "tty": True, "detach": True}, "tty"),
        ({"command": ["sh"], "shell": True}, "shell"),
    ],
)
def test_programs_that_are_refused(wanted: Any, where: str) -> None:  # noqa: ANN401
    with pytest.raises(BadRequest, match=where):
        check(wanted)


def test_the_exec_args_a_program() -> None:
    wanted: dict[str, Any] = {
        "command": ["--tty", "a b"],
        "tty": True,
        "user": "1:2",
        "env": ["A=--", "B="],
        "working_dir": "/tmp",
    }
    assert exec_args(check(wanted), "LOG", "UUID", "app") == [
        *("app", "exec", "--app=app", "--log=LOG", "--tty", "--env=A=--", "--env=B=", "--user=1:2"),
        *("--cwd=/tmp", "UUID", "--", "--tty", "a b"),
    ]


def test_the_page_has_all_that_can_be_said_of_a_program() -> None:
    block = re.search(r"first message to `exec` describes .*?```json\n(.*?)```", PAGE, re.DOTALL)
    assert block
    assert check(json.loads(block[1])).keys() == MEMBERS.keys()


def test_the_page_has_all_that_can_be_said_of_a_pull() -> None:
    body = re.search(r"/v1/images/pull`.*body `\{(.*?)\}`", PAGE)
    assert body
    assert set(re.findall(r'"(\w+)"', body[1])) == _PULL.keys()


def test_bytes_that_are_no_text() -> None:
    """The client has such bytes on its own command line."""
    assert check({"command": ["\udcff"]})["command"] == ["\udcff"]


@pytest.mark.parametrize("text", ["", "[]", "x", "1", '"resize"'])
def test_messages_that_say_nothing(text: str) -> None:
    assert control(text) == {}


@pytest.mark.parametrize("size", [None, [], [1], [0, 5], [5, 10000], ["5", 5], [1, 2, 3]])
def test_sizes_that_are_none(size: object) -> None:
    assert window_size({"resize": size}) is None


@pytest.mark.parametrize("text", ["24", "24,80,5", "24,x,80", "24,", ",80", "0,80", "24,10000"])
def test_invalid_sizes_of_an_attachment(text: str) -> None:
    with pytest.raises(BadRequest, match="terminal size"):
        _size(text)


def test_size_of_an_attachment() -> None:
    assert _size("24,80") == (24, 80)
    assert _size("") is None


def test_which_lines() -> None:
    wanted = parse_query({"since": "2026-01-31T12:00:00Z", "until": "2026-01-31T12:00:01Z"})
    assert wanted == LogFilter(
        ("stdout", "stderr"),
        "2026-01-31T12:00:00.000000000Z",
        "2026-01-31T12:00:01.000000000Z",
        -1,
        False,
        False,
    )

    def has(time: str, stream: str = "stdout") -> bool:
        return wanted.has(Line("app", time, stream, b"", True))

    assert not has("2026-01-31T11:59:59.999999999Z")
    assert has("2026-01-31T12:00:00.000000000Z")
    assert has("2026-01-31T12:00:01.000000000Z", "stderr")
    assert not has("2026-01-31T12:00:01.000000001Z")
    assert parse_query({"stderr": "1", "tail": "3", "follow": "1"}).streams == ("stderr",)


@pytest.mark.parametrize(
    ("name", "value"),
    [("tail", "-1"), ("tail", "x"), ("follow", "yes"), ("since", "yesterday"), ("until", "1")],
)
def test_queries_that_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadRequest, match=name):
        parse_query({name: value})
