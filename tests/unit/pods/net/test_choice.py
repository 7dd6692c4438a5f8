"""The words of --net, and which configurations they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import NetworkError, UsageError
from ociruntime.pods.net.choice import check, parse, refuse_ports, select
from ociruntime.pods.net.configuration import BUILT_IN, Configuration

OWN = [Configuration(name, "1.0.0", ({"type": "ptp"},), f"{name}.conf") for name in ("a", "b")]
KNOWN = [*OWN, *BUILT_IN]


def test_words() -> None:
    assert parse([]) == [("default", "")]
    assert parse(["none"]) == [("none", "")]
    assert parse(["b,a:IP=1.2.3.4;X=", "default"]) == [
        ("b", ""),
        ("a", "IP=1.2.3.4;X="),
        ("default", ""),
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([""], "a name is missing"),
        (["a,,b"], "a name is missing"),
        (["a,b,a"], '"a" twice'),
        (["a", "a:K=V"], '"a" twice'),
        (["none,a"], '"none" goes with no other'),
        (["a", "host"], '"host" goes with no other'),
        (["a:"], "is not KEY=VALUE"),
        (["a:K"], '"K" is not KEY=VALUE'),
        (["a:K=V;"], "is not KEY=VALUE"),
        (["none:K=V"], '"none" takes no arguments'),
    ],
)
def test_refused(words: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse(words)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("default", ["default"]),
        ("default-restricted", ["default-restricted"]),
        ("b,a", ["a", "b", "default-restricted"]),
        ("default,b", ["b", "default"]),
        ("all", ["a", "b", "default"]),
        ("all,default-restricted", ["a", "b", "default", "default-restricted"]),
        ("none", []),
        ("host", []),
    ],
)
def test_chosen(words: str, names: list[str]) -> None:
    assert [one.name for one, _ in select(parse([words]), KNOWN)] == names


def test_arguments_with_all() -> None:
    assert [said for _, said in select(parse(["all,b:K=V"]), KNOWN)] == ["", "K=V", ""]


def test_unknown_name() -> None:
    with pytest.raises(NetworkError, match=r'no network "c".*none, host, a, b, default'):
        select(parse(["a,c"]), KNOWN)


def test_check(tmp_path: Path) -> None:
    check(parse(["host"]), [])
    check(parse(["default"]), [str(tmp_path)])
    with pytest.raises(NetworkError, match='no network "c"'):
        check(parse(["c"]), [str(tmp_path)])


def test_ports() -> None:
    refuse_ports(parse(["default"]))
    for name in ("none", "host"):
        with pytest.raises(UsageError, match=f"--net={name}"):
            refuse_ports(parse([name]))
