"""The values of --net, and the configurations that they select."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import NetworkError, UsageError
from ociruntime.pods.net.net_option import check, parse, refuse_ports, select
from ociruntime.pods.net.network_configs import BUILT_IN, Configuration

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
        ([""], "not be empty"),
        (["a,,b"], "not be empty"),
        (["a,b,a"], '"a" is given twice'),
        (["a", "a:K=V"], '"a" is given twice'),
        (["none,a"], '"none"'),
        (["a", "host"], '"host"'),
        (["a:"], "KEY=VALUE"),
        (["a:K"], '"K"'),
        (["a:K=V;"], "KEY=VALUE"),
        (["none:K=V"], '"none"'),
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


def test_a_network_with_names_needs_no_other() -> None:
    """``default-restricted`` would connect its pods to those of other networks."""
    named = Configuration("lan", "1.0.0", ({"type": "bridge"},), "lan.conf", {"names": True})
    assert [one.name for one, _ in select(parse(["lan"]), [named, *KNOWN])] == ["lan"]
    both = [one.name for one, _ in select(parse(["lan,a"]), [named, *KNOWN])]
    assert both == ["lan", "a"]


def test_arguments_with_all() -> None:
    assert [said for _, said in select(parse(["all,b:K=V"]), KNOWN)] == ["", "K=V", ""]


def test_unknown_name() -> None:
    with pytest.raises(NetworkError, match=r'unknown network "c".*none, host, a, b, default'):
        select(parse(["a,c"]), KNOWN)


def test_check(tmp_path: Path) -> None:
    check(parse(["host"]), [])
    check(parse(["default"]), [str(tmp_path)])
    with pytest.raises(NetworkError, match='unknown network "c"'):
        check(parse(["c"]), [str(tmp_path)])


def test_ports() -> None:
    refuse_ports(parse(["default"]))
    for name in ("none", "host"):
        with pytest.raises(UsageError, match=f"--net={name}"):
            refuse_ports(parse([name]))
