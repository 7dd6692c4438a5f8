"""The built-in plugin ``portmap``, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net.builtin import portmap
from ociruntime.pods.net.plugin_parameters import PluginCall


@pytest.fixture(autouse=True)
def link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portmap, "_link_to", lambda _address: "veth0")


def call(pod_addresses: list[str], *host_addresses: str) -> PluginCall:
    """Return a call that publishes port 8080 of all the host's addresses, for a pod with these."""
    mappings: list[dict[str, Any]] = [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": address}
        for address in host_addresses
    ]
    ips = [
        {"address": f"{address}/64" if ":" in address else f"{address}/24"}
        for address in pod_addresses
    ]
    configuration = {
        "name": "lan",
        "cniVersion": "1.0.0",
        "type": "portmap",
        "runtimeConfig": {"portMappings": mappings},
        "prevResult": {"cniVersion": "1.0.0", "ips": ips},
    }
    return PluginCall("1a2b3c4d", "/ns", "eth0", "", configuration, (), "/state", "nft")


@pytest.mark.parametrize(
    ("pod_address", "host_address", "text"),
    [
        ("10.5.0.7", "::1", 'network "lan": .*8080/tcp of ::1: .* no IPv6 address'),
        ("fd00::7", "127.0.0.1", 'network "lan": .*8080/tcp of 127.0.0.1: .* no IPv4 address'),
    ],
)
def test_an_address_of_a_family_that_the_pod_lacks(
    pod_address: str, host_address: str, text: str
) -> None:
    with pytest.raises(NetworkError, match=text):
        portmap.add(call([pod_address], "", host_address))


@pytest.mark.parametrize("anywhere", ["", "0.0.0.0", "::"])
def test_any_address_of_the_host(anywhere: str) -> None:
    """It means those of the IP families that the pod has."""
    one = call(["10.5.0.7"], anywhere)
    portmap.add(one)
    assert [(rules.family, rules.address) for rules in one.rules] == [(4, "10.5.0.7")]
    both = call(["10.5.0.7", "fd00::7"], anywhere)
    portmap.add(both)
    assert [rules.family for rules in both.rules] == [4, 6]


def test_each_family_has_its_own() -> None:
    one = call(["10.5.0.7", "fd00::7"], "127.0.0.1", "::1")
    portmap.add(one)
    assert [[each.host_ip for each in rules.forwards] for rules in one.rules] == [
        ["127.0.0.1"],
        ["::1"],
    ]
