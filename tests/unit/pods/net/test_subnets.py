"""The subnets in use, and the choice of a free one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ociruntime.base.errors import HostError, NetworkError
from ociruntime.pods.net import subnets
from ociruntime.pods.net.addresses import parse_network
from ociruntime.pods.net.network_configs import Configuration
from tests.support.netns import NetworkNamespace


def configuration(*ipam: dict[str, Any]) -> Configuration:
    plugins = tuple({"type": "bridge", "ipam": one} for one in ipam)
    return Configuration("n", "1.0.0", ({"type": "tuning"}, *plugins), "/file", {})


def ranges(*ipam: dict[str, Any]) -> list[tuple[str, str]]:
    return [(str(one), gateway) for one, gateway in subnets.ranges_of(configuration(*ipam))]


def test_ranges_of_all_forms() -> None:
    found = ranges(
        {"subnet": "10.1.2.0/24", "ranges": [[{"subnet": "fd00::/64", "gateway": "fd00::5"}]]},
        {"ranges": [[{"subnet": "10.2.0.0/16"}], [{"subnet": "10.3.0.0/16"}]]},
    )
    assert found == [
        ("10.1.2.0/24", "10.1.2.1"),
        ("fd00::/64", "fd00::5"),
        ("10.2.0.0/16", "10.2.0.1"),
        ("10.3.0.0/16", "10.3.0.1"),
    ]
    assert subnets.subnets_of(configuration({"subnet": "10.1.2.7/24"}))[0].prefix == 24


@pytest.mark.parametrize(
    "ipam",
    [
        {"type": "dhcp"},
        {"subnet": 5},
        {"subnet": "10.0.0.0"},
        {"subnet": "255.255.255.255/32"},  # the address after it does not exist
        {"ranges": 5},
        {"ranges": {"subnet": "10.1.0.0/16"}},
        {"ranges": [5, [5, "10.1.0.0/16", None, {}, {"subnet": "x"}]]},
    ],
)
def test_a_range_of_another_plugin_that_we_cannot_read(ipam: dict[str, Any]) -> None:
    """Its other ranges still count."""
    assert ranges(ipam, {"subnet": "10.9.0.0/24"})[-1] == ("10.9.0.0/24", "10.9.0.1")
    assert len(ranges(ipam)) == 0


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("10.0.0.0/24", "10.0.0.0/16", True),
        ("10.0.0.0/16", "10.0.9.0/24", True),
        ("10.0.0.0/24", "10.0.1.0/24", False),
        ("10.0.0.0/8", "fd00::/8", False),
    ],
)
def test_overlap(one: str, other: str, expected: bool) -> None:
    networks = parse_network(one), parse_network(other)
    assert subnets.overlap(*networks) == subnets.overlap(*networks[::-1]) == expected


def test_the_first_free_subnet() -> None:
    taken = [parse_network(one) for one in ("10.89.0.0/24", "10.89.1.128/25", "::/0")]
    assert str(subnets.free_subnet([])) == "10.89.0.0/24"
    assert str(subnets.free_subnet(taken)) == "10.89.2.0/24"


def test_no_subnet_is_free() -> None:
    last = [parse_network("10.88.0.0/13"), parse_network("10.96.0.0/14")]
    with pytest.raises(NetworkError, match=r"choose a .* network: all of 10"):
        subnets.free_subnet(last)
    assert str(subnets.free_subnet([last[0], parse_network("10.96.0.0/15")])) == "10.98.0.0/24"


def test_random_subnets() -> None:
    first, second = subnets.random_subnet6(), subnets.random_subnet6()
    assert str(first) != str(second)
    for one in (first, second):
        assert str(one).startswith("fd")
        assert str(one.subnet) == str(one)
        assert one.prefix == 64


def test_routes_of_the_host(namespaces: Callable[[], NetworkNamespace]) -> None:
    with namespaces().entered():
        for words in (
            "link add one type veth peer name two",
            "link set two up",
            "address add 10.7.0.1/16 dev one",
            "link set one up",
            "route add 10.8.0.0/24 via 10.7.0.9",
            "route add default via 10.7.0.9",
            "-6 address add fd07::1/64 dev one nodad",
        ):
            subprocess.run(["ip", *words.split()], check=True)
        used = {str(one.subnet): one.is_connected for one in subnets.used_by_host()}
    assert used["10.7.0.0/16"] is True
    assert used["10.8.0.0/24"] is False
    assert used["fd07::/64"] is True
    assert not {one for one in used if one.endswith("/0")}


def test_routes_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(1, "operation not permitted")

    monkeypatch.setattr(subnets, "Rtnetlink", refuse)
    with pytest.raises(HostError, match=r"list the .* of this host: operation not permitted"):
        subnets.used_by_host()
