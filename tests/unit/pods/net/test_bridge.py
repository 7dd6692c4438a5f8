"""The built-in bridge: several pods on it, and its removal with the last one."""

from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import connect_pod
from tests.support.netns import NetworkNamespace, seen_source
from tests.support.network_host import NetworkHost

IPAM = {"type": "host-local", "subnet": "10.7.0.0/24"}


@pytest.fixture(autouse=True)
def _without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ociruntime.pods.net.network_configs.PLUGIN_DIRECTORIES", ())


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


def reaches(client: NetworkNamespace, server: NetworkNamespace, address: str, port: int) -> bool:
    """Return whether a connection succeeds; dropped packets get no answer."""
    with server.listen(port):
        with client.entered():
            one = socket.socket()
        with one:
            one.settimeout(1)
            return one.connect_ex((address, port)) == 0


@pytest.fixture(params=["nft", "iptables-restore"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    program = str(request.param)
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    found = program.removesuffix("-restore")
    monkeypatch.setattr("ociruntime.pods.net.firewall.find_tool", lambda: found)
    return found


def isolated(host: NetworkHost, number: int, **more: bool) -> None:
    ipam = {"type": "host-local", "subnet": f"10.7.{number}.0/24"}
    settings = {"type": "bridge", "bridge": f"pods{number}", "isGateway": True, "ipam": ipam}
    settings |= {"isolated": True, **more}
    host.configure(f"{number}.conf", {"name": f"lan{number}", **settings})


@pytest.mark.usefixtures("tool")
def test_isolated(host: NetworkHost) -> None:
    """Pods of one network reach only the forwarded ports of another one's pods."""
    for number in (0, 1):
        isolated(host, number, isDefaultGateway=True, ipMasq=True, hairpinMode=True)
    one, other, third, usual = (host.pod() for _ in range(4))
    host.join(one, "lan0")
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]
    host.join(other, "lan1", ports=ports)
    host.join(third, "lan1")
    host.join(usual, "default")
    inside = other.namespace
    assert not reaches(one.namespace, inside, "10.7.1.2", 80)
    assert not reaches(usual.namespace, inside, "10.7.1.2", 80)
    assert reaches(third.namespace, inside, "10.7.1.2", 80)
    assert reaches(host.namespace, inside, "10.7.1.2", 80)
    assert seen_source(one.namespace, inside, "10.7.0.1", 8080, 80)
    assert seen_source(inside, inside, "10.7.1.1", 8080, 80)
    assert seen_source(inside, usual.namespace, "172.16.28.2", 80) == "172.16.28.1"
    for pod in (one, other, third, usual):
        assert host.leave(pod) == []
    host.assert_clean()


@pytest.mark.usefixtures("tool")
def test_internal(host: NetworkHost) -> None:
    """A pod that adds a route still cannot reach other networks."""
    isolated(host, 0, internal=True)
    one, other, usual = (host.pod() for _ in range(3))
    host.join(one, "lan0")
    host.join(other, "lan0")
    host.join(usual, "default")
    assert "default" not in one.run("ip", "route")
    one.run("ip", "route", "add", "default", "via", "10.7.0.1")
    usual.run("ip", "route", "add", "10.7.0.0/24", "via", "172.16.28.1", status=None)
    assert not reaches(one.namespace, usual.namespace, "172.16.28.2", 80)
    assert not reaches(usual.namespace, one.namespace, "10.7.0.2", 80)
    assert reaches(other.namespace, one.namespace, "10.7.0.2", 80)
    assert reaches(host.namespace, one.namespace, "10.7.0.2", 80)
    for pod in (one, other, usual):
        assert host.leave(pod) == []
    host.assert_clean()


def test_coming_and_going_at_once(host: NetworkHost) -> None:
    """A bridge that another pod is about to use is never removed."""
    configure(host)
    requests = [host.request(host.pod(), "lan") for _ in range(6)]

    def come_and_go(request: connect_pod.NetworkRequest) -> list[str]:
        return [
            problem
            for _ in range(3)
            for problem in connect_pod.tear_down(connect_pod.set_up(request))
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
        ({"bridge": "out0"}, '"out0": the interface'),
        ({"bridge": 'a"b'}, '"bridge"'),
        ({"bridge": "a/b"}, '"bridge"'),
        ({"bridge": "sixteen-letters-"}, '"bridge"'),
        ({"vlan": 5}, 'the built-in plugin "bridge" does not support "vlan".*install'),
        ({"mtu": "big"}, '"mtu"'),
        ({"isolated": 1}, '"isolated"'),
        ({"hairpinMode": "yes"}, '"hairpinMode"'),
        ({"ipam": {}}, '"ipam.type"'),
        ({"ipam": {"type": "dhcp"}}, '"dhcp": not found'),
        ({"ipam": {"type": "ptp"}}, '"ptp"'),
        ({"ipam": {"type": "host-local", "subnet": "10.0.0.1/24"}}, "use 10.0.0.0/24"),
        ({"type": "host-local"}, '"ipam"'),
    ],
)
def test_refused(host: NetworkHost, more: dict[str, Any], text: str) -> None:
    host.run("ip", "link", "add", "out0", "type", "veth", "peer", "out1")
    configure(host, **more)
    with pytest.raises(NetworkError, match=text):
        host.join(host.pod(), "lan")
    host.run("ip", "link", "delete", "out0")
    host.assert_clean()
