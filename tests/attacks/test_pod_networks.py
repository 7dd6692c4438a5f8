"""Attacks of a pod with CAP_NET_RAW on the host's network and on the isolation of networks."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from struct import pack
from time import sleep

import pytest

from tests.support.network_host import NetworkHost, Pod, host, namespaces

__all__ = ("host", "namespaces")

IPV6_TYPE = 0x86DD
ICMPV6, UDP = 58, 17


@pytest.fixture(autouse=True)
def _without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ociruntime.pods.net.network_configs.PLUGIN_DIRECTORIES", ())


@pytest.fixture(params=["nft", "iptables"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found = str(request.param)
    if not shutil.which("nft" if found == "nft" else "ip6tables-restore"):
        pytest.skip(f"{found} is not installed")
    monkeypatch.setattr("ociruntime.pods.net.firewall.find_tool", lambda: found)
    return found


def bridge_network(host: NetworkHost, number: int, **more: bool) -> None:
    ipam = {"type": "host-local", "subnet": f"10.7.{number}.0/24"}
    settings = {"type": "bridge", "bridge": f"pods{number}", "isGateway": True, "ipam": ipam}
    host.configure(f"{number}.conf", {"name": f"lan{number}", **settings, **more})


def checksum(data: bytes) -> int:
    total = sum(
        int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2)
    )
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv6_packet(source: str, target: str, protocol: int, body: bytes, at: int) -> bytes:
    """Return a packet whose ``body`` gets its checksum at the offset ``at``."""
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target)
    found = checksum(ends + pack(">II", len(body), protocol) + body)
    body = body[:at] + pack(">H", found) + body[at + 2 :]
    return pack(">IHBB", 6 << 28, len(body), protocol, 255) + ends + body


def send_frame(pod: Pod, target: bytes, packet: bytes) -> None:
    with pod.namespace.entered():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with raw:
        raw.bind(("eth0", IPV6_TYPE))
        own = raw.getsockname()[4]
        raw.send(target + own + pack(">H", IPV6_TYPE) + packet)


def link(where: NetworkHost | Pod, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(where.run("ip", "-j", "link", "show", "dev", name))[0]
    return found


def hardware(where: NetworkHost | Pod, name: str) -> bytes:
    return bytes.fromhex(link(where, name)["address"].replace(":", ""))


def advertise(pod: Pod) -> None:
    """Send router advertisements, from which hosts configure their addresses."""
    prefix = pack(">BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0)
    prefix += socket.inet_pton(socket.AF_INET6, "2001:db8:bad::")
    body = pack(">BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
    packet = ipv6_packet("fe80::bad", "ff02::1", ICMPV6, body, 2)
    send_frame(pod, bytes.fromhex("333300000001"), packet)


def routes(where: NetworkHost | Pod) -> str:
    return where.run("ip", "-6", "route") + where.run("ip", "-6", "address", "show", "up")


@pytest.mark.parametrize("network", ["default", "lan0"])
def test_router_advertisement(host: NetworkHost, network: str) -> None:
    """Neither the host nor another pod accepts them (CVE-2020-10749, CVE-2020-13401)."""
    bridge_network(host, 0)
    one, other = host.pod(), host.pod()
    host.join(one, network)
    host.join(other, network)
    for _ in range(3):
        advertise(one)
    settled(host, one)
    for where in (host, other):
        assert "2001:db8:bad" not in routes(where)
        assert "fe80::bad" not in routes(where)
    names = [name for name in host.links() if name != "lo"]
    for name in names:
        for setting in ("accept_ra", "accept_redirects"):
            assert host.run("cat", f"/proc/sys/net/ipv6/conf/{name}/{setting}") == "0\n"
    assert one.run("cat", "/proc/sys/net/ipv6/conf/eth0/accept_ra") == "0\n"
    for pod in (one, other):
        assert host.leave(pod) == []
    host.assert_clean()


def settled(host: NetworkHost, pod: Pod) -> None:
    """Wait until the host has processed the pod's packets so far: until it answers a ping."""
    gateway = pod.info["networks"][0]["result"]["ips"][0]["gateway"]
    host.namespace.listen(80).close()
    with host.namespace.listen(81), pod.namespace.connect(gateway, 81):
        pass


def test_router_advertisement_to_an_older_bridge(host: NetworkHost) -> None:
    """The bridge already exists, made by an earlier version or by CNI's plugin."""
    bridge_network(host, 0)
    host.run("ip", "link", "add", "pods0", "type", "bridge")
    host.run("ip", "link", "set", "pods0", "up")
    pod = host.pod()
    host.join(pod, "lan0")
    advertise(pod)
    settled(host, pod)
    assert "2001:db8:bad" not in routes(host)
    assert host.leave(pod) == []


def outside(host: NetworkHost, other: Pod) -> None:
    """Connect another machine, 2001:db8::2, to a host that forwards IPv6."""
    host.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    host.run(
        "ip",
        "link",
        "add",
        "out0",
        "type",
        "veth",
        "peer",
        "eth0",
        "netns",
        str(other.namespace.pid),
    )
    for where, name, address in (
        (host, "out0", "2001:db8::1/64"),
        (other, "eth0", "2001:db8::2/64"),
    ):
        where.run("ip", "-6", "address", "add", address, "dev", name, "nodad")
        where.run("ip", "link", "set", name, "up")
    other.run("ip", "-6", "route", "add", "default", "via", "2001:db8::1")
    with host.namespace.listen(81, "::"):
        for _ in range(100):  # until both ends have carrier
            try:
                other.namespace.connect("2001:db8::1", 81).close()
                break
            except OSError:
                sleep(0.1)


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("internal", [True, False])
def test_ipv6_leaves_an_internal_network(host: NetworkHost, internal: bool) -> None:
    """On a network without IPv6, frames to the bridge's MAC address must not be routed."""
    bridge_network(host, 0, isolated=True, internal=internal)
    pod, gone, other = host.pod(), host.pod(), host.pod()
    host.join(gone, "lan0")
    host.join(pod, "lan0")
    assert host.leave(gone) == []  # the rules of the other stay in force
    outside(host, other)
    with other.namespace.entered():
        server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with server:
        server.bind(("::", 99))
        server.settimeout(1)
        body = pack(">HHHH", 99, 99, 12, 0) + b"data"
        packet = ipv6_packet("2001:db8:1::2", "2001:db8::2", UDP, body, 6)
        send_frame(pod, hardware(host, "pods0"), packet)
        if internal:
            with pytest.raises(TimeoutError):
                server.recv(10)
        else:
            assert server.recv(10) == b"data"
    host.run("ip", "link", "delete", "out0")
    assert host.leave(pod) == []
    host.assert_clean()


def reached(client: Pod, server: Pod, address: str) -> bool:
    with server.namespace.listen(80, "::" if ":" in address else ""):
        with client.namespace.entered():
            one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        with one:
            one.settimeout(1)
            return one.connect_ex((address, 80)) == 0


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("internal", [True, False])
def test_address_that_is_not_assigned(host: NetworkHost, internal: bool) -> None:
    """An app uses another address of its network, for which there is no rule."""
    bridge_network(host, 0, isolated=True, internal=internal)
    pod, usual, friend = host.pod(), host.pod(), host.pod()
    host.join(pod, "lan0")
    host.join(friend, "lan0")
    host.join(usual, "default")
    pod.run("ip", "address", "add", "10.7.0.77/24", "dev", "eth0")
    pod.run("ip", "route", "replace", "default", "via", "10.7.0.1")
    assert not reached(usual, pod, "10.7.0.77")
    assert reached(friend, pod, "10.7.0.77")
    assert host.leave(friend) == []
    assert not reached(usual, pod, "10.7.0.77")
    for one in (pod, usual):
        assert host.leave(one) == []
    host.assert_clean()


@pytest.mark.usefixtures("tool")
def test_ipv6_address_that_is_not_assigned(host: NetworkHost) -> None:
    """The host has a route to the bridge, but the network has no IPv6."""
    bridge_network(host, 0, isolated=True)
    pod, other = host.pod(), host.pod()
    host.join(pod, "lan0")
    outside(host, other)
    pod.run("ip", "-6", "address", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
    host.run("ip", "-6", "address", "add", "2001:db8:1::1/64", "dev", "pods0", "nodad")
    pod.run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
    assert not reached(other, pod, "2001:db8:1::2")
    host.run("ip", "link", "delete", "out0")
    assert host.leave(pod) == []
    host.assert_clean()


@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize("missing", ["ip6tables-restore", "IPv6"])
def test_without_ipv6(
    host: NetworkHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    """A pod can join and leave an isolated network on a host that cannot filter IPv6."""
    from ociruntime.base import host_programs
    from ociruntime.pods.net import firewall

    if missing == "IPv6":
        monkeypatch.setattr(firewall, "IPV6", str(tmp_path / "missing"))
    else:
        known = host_programs.find_program
        monkeypatch.setattr(
            firewall, "find_program", lambda name: "" if name.startswith("ip6") else known(name)
        )
    bridge_network(host, 0, isolated=True, internal=True)
    pod = host.pod()
    host.join(pod, "lan0")
    assert host.leave(pod) == []
    host.assert_clean()
