"""The built-in bridge: several pods on it, and its end with the last of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import networks
from tests.support.netns import seen_source
from tests.support.network_host import NetworkHost

IPAM = {"type": "host-local", "subnet": "10.7.0.0/24"}


@pytest.fixture(autouse=True)
def _without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ociruntime.pods.net.configuration.PLUGIN_DIRECTORIES", ())


def configure(host: NetworkHost, **more: Any) -> None:  # noqa: ANN401
    settings = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipam": IPAM, **more}
    host.configure("lan.conf", {"name": "lan", **settings})


def test_two_pods(host: NetworkHost) -> None:
    configure(host)
    one, other = host.pod(), host.pod()
    host.join(one, "lan")
    host.join(other, "lan")
    assert seen_source(one.namespace, other.namespace, "10.7.0.3", 80) == "10.7.0.2"
    assert seen_source(host.namespace, other.namespace, "10.7.0.3", 80) == "10.7.0.1"
    assert host.leave(one) == []
    assert seen_source(host.namespace, other.namespace, "10.7.0.3", 80) == "10.7.0.1"
    assert host.leave(other) == []
    host.assert_clean()


def test_ports(host: NetworkHost) -> None:
    configure(host, ipMasq=True, isDefaultGateway=True, hairpinMode=True)
    pod = host.pod()
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
    host.join(pod, "lan", ports=ports)
    inside = pod.namespace
    assert seen_source(host.namespace, inside, "127.0.0.1", 8080, 80) == "10.7.0.1"
    assert seen_source(inside, inside, "10.7.0.1", 8080, 80) == "10.7.0.1"
    assert host.leave(pod) == []
    host.assert_clean()


def test_coming_and_going_at_once(host: NetworkHost) -> None:
    """A bridge that another pod is about to use is never removed."""
    configure(host)
    requests = [host.request(host.pod(), "lan") for _ in range(6)]

    def come_and_go(request: networks.NetworkRequest) -> list[str]:
        return [
            problem for _ in range(3) for problem in networks.tear_down(networks.set_up(request))
        ]

    with host.namespace.entered(), ThreadPoolExecutor() as threads:
        assert list(threads.map(come_and_go, requests)) == [[]] * 6
    host.assert_clean()


def test_a_bridge_of_somebody_else_stays(host: NetworkHost) -> None:
    configure(host)
    host.run("ip", "link", "add", "pods0", "type", "bridge")
    pod = host.pod()
    host.join(pod, "lan")
    assert host.leave(pod) == []
    assert host.links() == ["lo", "pods0"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"bridge": "out0"}, "out0 exists, but is not a bridge"),
        ({"bridge": "a/b"}, '"bridge" must be a name of an interface'),
        ({"bridge": "sixteen-letters-"}, '"bridge" must be a name of an interface'),
        ({"vlan": 5}, 'the built-in plugin bridge does not support "vlan".*install'),
        ({"mtu": "big"}, '"mtu" must be a number'),
        ({"hairpinMode": "yes"}, '"hairpinMode" must be true or false'),
        ({"ipam": {}}, '"ipam" requires a plugin'),
        ({"ipam": {"type": "dhcp"}}, '"dhcp" is not installed'),
        ({"ipam": {"type": "ptp"}}, '"ptp" is not an IPAM plugin'),
        ({"ipam": {"type": "host-local", "subnet": "10.0.0.1/24"}}, "is too small"),
        ({"type": "host-local"}, 'can only be used for "ipam"'),
    ],
)
def test_refused(host: NetworkHost, more: dict[str, Any], text: str) -> None:
    host.run("ip", "link", "add", "out0", "type", "veth", "peer", "out1")
    configure(host, **more)
    with pytest.raises(NetworkError, match=text):
        host.join(host.pod(), "lan")
    host.run("ip", "link", "delete", "out0")
    host.assert_clean()
