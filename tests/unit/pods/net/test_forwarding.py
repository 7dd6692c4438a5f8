"""Published ports of pods, and pods behind the host's address: with nft and iptables."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import connect_pod, conntrack, firewall
from ociruntime.pods.net.firewall_rules import Forward, Rules, tag
from tests.support.netns import NetworkNamespace, seen_source
from tests.support.network_host import NetworkHost, Pod

FLOWS = "/proc/net/nf_conntrack"
TOOLS = {"nft": "nft", "iptables": "iptables-restore"}


@pytest.fixture(params=sorted(TOOLS))
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if not shutil.which(TOOLS[name]):
        pytest.skip(f"{TOOLS[name]} is not installed")
    monkeypatch.setattr(firewall, "find_tool", lambda: name)
    return name


@pytest.fixture
def outside(namespaces: Callable[[], NetworkNamespace], host: NetworkHost) -> NetworkNamespace:
    """Another machine, 192.0.2.2, next to the host, 192.0.2.1; it has no route to pods."""
    other = namespaces()
    host.run("ip", "link", "add", "out0", "type", "veth", "peer", "eth0", "netns", str(other.pid))
    host.run("ip", "addr", "add", "192.0.2.1/24", "dev", "out0")
    host.run("ip", "link", "set", "out0", "up")
    other.run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
    other.run("ip", "link", "set", "eth0", "up")
    return other


def mapping(host_port: int, port: int, host_ip: str = "", protocol: str = "tcp") -> dict[str, Any]:
    return {"hostPort": host_port, "containerPort": port, "protocol": protocol, "hostIP": host_ip}


def assert_clean(host: NetworkHost) -> None:
    host.run("ip", "link", "delete", "out0", status=None)
    host.assert_clean()


def test_masquerade(tool: str, host: NetworkHost, outside: NetworkNamespace) -> None:
    pod, other = host.pod(), host.pod()
    host.join(pod)
    host.join(other)
    assert pod.info["firewall"] == tool
    assert seen_source(pod.namespace, outside, "192.0.2.2", 80) == "192.0.2.1"
    assert seen_source(pod.namespace, other.namespace, "172.16.28.3", 80) == "172.16.28.2"
    assert host.leave(pod) == []
    assert host.leave(other) == []
    assert_clean(host)


def test_every_way_to_a_forwarded_port(
    tool: str, host: NetworkHost, outside: NetworkNamespace
) -> None:
    pod, other = host.pod(), host.pod()
    host.join(pod, ports=[mapping(8080, 80)])
    host.join(other)
    inside = pod.namespace
    assert seen_source(outside, inside, "192.0.2.1", 8080, 80) == "192.0.2.2"
    assert seen_source(host.namespace, inside, "127.0.0.1", 8080, 80) == "172.16.28.1"
    assert seen_source(host.namespace, inside, "192.0.2.1", 8080, 80) == "192.0.2.1"
    assert seen_source(other.namespace, inside, "172.16.28.1", 8080, 80) == "172.16.28.3"
    assert seen_source(inside, inside, "172.16.28.1", 8080, 80) == "172.16.28.1"
    assert seen_source(inside, inside, "172.16.28.2", 80) == "172.16.28.2"
    assert host.leave(pod) == []
    with pytest.raises(OSError, match=r"refused|timed out"):
        host.namespace.connect("127.0.0.1", 8080)
    assert host.leave(other) == []
    assert host.leave(pod) == []
    assert_clean(host)


def test_one_address_of_the_host(tool: str, host: NetworkHost, outside: NetworkNamespace) -> None:
    pod = host.pod()
    host.join(pod, ports=[mapping(8080, 80, "127.0.0.1"), mapping(8081, 80, "192.0.2.1")])
    inside = pod.namespace
    assert seen_source(host.namespace, inside, "127.0.0.1", 8080, 80) == "172.16.28.1"
    assert seen_source(outside, inside, "192.0.2.1", 8081, 80) == "192.0.2.2"
    for client, address, port in (
        (outside, "192.0.2.1", 8080),
        (host.namespace, "127.0.0.1", 8081),
    ):
        with inside.listen(80), pytest.raises(ConnectionRefusedError):
            client.connect(address, port)
    assert host.leave(pod) == []
    assert_clean(host)


def test_udp(tool: str, host: NetworkHost) -> None:
    pod = host.pod()
    host.join(pod, ports=[mapping(5353, 53, protocol="udp")])
    with pod.namespace.entered():
        server = socket.socket(type=socket.SOCK_DGRAM)
    with host.namespace.entered():
        client = socket.socket(type=socket.SOCK_DGRAM)
    with server, client:
        server.bind(("", 53))
        server.settimeout(20)
        client.settimeout(20)
        client.sendto(b"ask", ("127.0.0.1", 5353))
        data, peer = server.recvfrom(10)
        server.sendto(b"answer", peer)
        assert (data, client.recv(10)) == (b"ask", b"answer")
    assert host.leave(pod) == []
    host.assert_clean()


def test_udp_clients_that_do_not_pause(tool: str, host: NetworkHost) -> None:
    """The kernel still tracks their packets' old destination, and must forget it."""
    if not os.path.exists(FLOWS):
        pytest.skip(f"there is no {FLOWS}")
    first, second, other = host.pod(), host.pod(), host.pod()
    host.join(other)  # flows are followed where there are rules
    with host.namespace.entered():
        client = socket.socket(type=socket.SOCK_DGRAM)
        elsewhere = socket.socket(type=socket.SOCK_DGRAM)
    with client, elsewhere:
        client.sendto(b"nobody", ("127.0.0.1", 5353))
        elsewhere.sendto(b"other port", ("127.0.0.1", 5354))
        for pod in (first, second):
            host.join(pod, ports=[mapping(5353, 53, protocol="udp")])
            with pod.namespace.entered():
                server = socket.socket(type=socket.SOCK_DGRAM)
            with server:
                server.bind(("", 53))
                server.settimeout(20)
                client.settimeout(20)
                client.sendto(b"ask", ("127.0.0.1", 5353))
                data, peer = server.recvfrom(10)
                server.sendto(b"answer", peer)
                assert (data, client.recv(10)) == (b"ask", b"answer")
            if pod is first:
                assert host.leave(pod) == []
                assert "dport=5353" not in flows(host)
                client.sendto(b"nobody", ("127.0.0.1", 5353))
        assert "dport=5354" in flows(host), "others go on"
    for pod in (second, other):
        assert host.leave(pod) == []
    host.assert_clean()


def flows(host: NetworkHost) -> str:
    """Return the flows that the kernel tracks."""
    return host.run("cat", FLOWS)


def test_the_hosts_loopback_is_closed_to_pods(tool: str, host: NetworkHost) -> None:
    """Forwarding makes 127.0.0.0/8 routable on the pod's link; nothing else is opened."""
    pod = host.pod()
    host.join(pod, ports=[mapping(8080, 80)])
    (link,) = [name for name in host.links() if name.startswith("veth")]
    assert host.run("cat", f"/proc/sys/net/ipv4/conf/{link}/route_localnet") == "1\n"
    pod.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet")
    pod.run("ip", "route", "add", "127.0.0.5/32", "via", "172.16.28.1")
    pod.run("ip", "rule", "add", "to", "127.0.0.5", "lookup", "main", "pref", "0")
    pod.run("ip", "rule", "del", "lookup", "local")
    pod.run("ip", "rule", "add", "lookup", "local", "pref", "1")
    with host.namespace.listen(7000, "127.0.0.5"):
        host.namespace.connect("127.0.0.5", 7000).close()
        with pytest.raises(OSError, match=r"timed out|unreachable"):
            connect_quickly(pod, "127.0.0.5", 7000)
    assert host.leave(pod) == []
    host.assert_clean()


def connect_quickly(pod: Pod, address: str, port: int) -> None:
    with pod.namespace.entered():
        client = socket.socket()
    with client:
        client.bind(("172.16.28.2", 0))
        client.settimeout(0.5)
        client.connect((address, port))


def test_the_network_that_masquerades_gets_the_ports(tool: str, host: NetworkHost) -> None:
    ipam = {"type": "host-local", "subnet": "10.9.0.0/24"}
    host.configure("10-plain.conf", {"name": "plain", "type": "ptp", "ipam": ipam})
    pod = host.pod()
    info = host.join(pod, "plain", "default", ports=[mapping(8080, 80)])
    assert [one["name"] for one in info["networks"]] == ["plain", "default"]
    assert [len(one["plugins"]) for one in info["networks"]] == [1, 2]
    assert seen_source(host.namespace, pod.namespace, "127.0.0.1", 8080, 80) == "172.16.28.1"
    assert host.leave(pod) == []
    host.assert_clean()


def test_removal_leaves_others_alone(tool: str, host: NetworkHost) -> None:
    host.run("iptables", "-t", "nat", "-A", "POSTROUTING", "-s", "10.0.0.0/8", "-j", "MASQUERADE")
    before = host.run("iptables-save", "-t", "nat")
    pods = [host.pod() for _ in range(3)]
    for i, pod in enumerate(pods):
        host.join(pod, ports=[mapping(8000 + i, 80)])
    assert host.leave(pods[1]) == []
    for i in (0, 2):
        source = seen_source(host.namespace, pods[i].namespace, "127.0.0.1", 8000 + i, 80)
        assert source == "172.16.28.1"
        assert networks_check(host, pods[i]) == []
    assert networks_check(host, pods[1]) != []
    for pod in pods:
        assert host.leave(pod) == []
    after = host.run("iptables-save", "-t", "nat")
    assert without_comments(after) == without_comments(before)


def networks_check(host: NetworkHost, pod: Pod) -> list[str]:
    with host.namespace.entered():
        return connect_pod.check(pod.info)


def without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("#", ":"))]


def test_ipv6(
    tool: str, host: NetworkHost, outside: NetworkNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports and masquerade are set up for the pod's own IP families."""
    monkeypatch.setattr("ociruntime.pods.net.network_configs.PLUGIN_DIRECTORIES", ())
    for namespace, device, address in (
        (host.namespace, "out0", "2001:db8::1/64"),
        (outside, "eth0", "2001:db8::2/64"),
    ):
        namespace.run("ip", "addr", "add", address, "dev", device, "nodad")
    ranges = [[{"subnet": "10.7.0.0/24"}], [{"subnet": "fd00:7::/64"}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "::/0"}]}
    host.configure("n.conf", {"name": "six", "type": "ptp", "ipMasq": True, "ipam": ipam})
    pod = host.pod()
    info = host.join(pod, "six", ports=[mapping(8080, 80), mapping(8081, 81, "2001:db8::1")])
    assert info["networks"][0]["ip6"] == "fd00:7::2"
    inside = pod.namespace
    assert seen_source(inside, outside, "2001:db8::2", 80) == "2001:db8::1"
    assert seen_source(outside, inside, "2001:db8::1", 8080, 80) == "2001:db8::2"
    assert seen_source(outside, inside, "2001:db8::1", 8081, 81) == "2001:db8::2"
    assert seen_source(inside, inside, "2001:db8::1", 8080, 80) == "fd00:7::1"
    assert seen_source(host.namespace, inside, "127.0.0.1", 8080, 80) == "10.7.0.1"
    assert host.leave(pod) == []
    assert_clean(host)


def test_a_port_leads_to_one_pod(host: NetworkHost) -> None:
    first, second = host.pod(), host.pod()
    host.join(first, ports=[mapping(8080, 80, "127.0.0.1")])
    for ports in ([mapping(8080, 81)], [mapping(1, 1), mapping(8080, 80, "127.0.0.1")]):
        with pytest.raises(NetworkError, match=f"8080/tcp: .*pod {first.uuid}"):
            host.join(second, ports=ports)
    host.join(second, ports=[mapping(8080, 80, "127.0.0.2"), mapping(8080, 80, protocol="udp")])
    assert host.leave(second) == []
    first.namespace.close()  # dead, though not cleaned up yet
    host.join(second, ports=[mapping(8080, 80)])
    for pod in (first, second):
        assert host.leave(pod) == []
    host.assert_clean()


def test_a_port_leads_to_the_newest_pod(
    tool: str, host: NetworkHost, outside: NetworkNamespace
) -> None:
    """Stale rules of an exited pod do not take precedence."""
    dead, living = host.pod(), host.pod()
    made = [forwarding(host.join(pod), pod.uuid) for pod in (dead, living)]
    with host.namespace.entered():
        for rules in made:
            firewall.apply(tool, [rules])
    for client, address, seen in (
        (outside, "192.0.2.1", "192.0.2.2"),
        (host.namespace, "192.0.2.1", "192.0.2.1"),
    ):
        assert seen_source(client, living.namespace, address, 8080, 80) == seen
    with host.namespace.entered():
        firewall.remove(tool, [(rules.tag, rules.family) for rules in made])
    for pod in (dead, living):
        assert host.leave(pod) == []
    assert_clean(host)


def forwarding(info: dict[str, Any], uuid: str) -> Rules:
    forwards = (Forward("tcp", "", 8080, 80),)
    return Rules(tag(uuid, "eth0", "fwd"), 4, info["networks"][0]["ip4"], forwards=forwards)


def test_a_port_that_a_program_has(host: NetworkHost) -> None:
    with (
        host.namespace.listen(8080),
        pytest.raises(NetworkError, match="8080/tcp: address already in use"),
    ):
        host.join(host.pod(), ports=[mapping(8080, 80)])
    with pytest.raises(NetworkError, match=r"192\.0\.2\.9:80/tcp: cannot assign"):
        host.join(host.pod(), ports=[mapping(80, 80, "192.0.2.9")])
    host.assert_clean()


def test_pods_at_once(tool: str, host: NetworkHost) -> None:
    """Each adds and removes its rules in one transaction, concurrently with others."""
    pods = [host.pod() for _ in range(6)]
    requests = [
        host.request(pod, "default", ports=[mapping(8000 + i, 80)]) for i, pod in enumerate(pods)
    ]
    with host.namespace.entered(), ThreadPoolExecutor() as threads:
        for pod, info in zip(pods, threads.map(connect_pod.set_up, requests), strict=True):
            pod.info = info
        assert list(threads.map(connect_pod.tear_down, [pod.info for pod in pods])) == [[]] * 6
    host.assert_clean()


def test_neither_tool(host: NetworkHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firewall, "find_tool", lambda: "")
    with pytest.raises(NetworkError, match=r"install nftables"):
        host.join(host.pod())
    host.assert_clean()
    pod = host.pod()
    host.join(pod, "default-restricted")
    assert host.leave(pod) == []
    host.assert_clean()


def test_flows_of_the_pod_that_has_the_port(
    host: NetworkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay when a pod that was refused the port is cleaned up."""
    pod, other = host.pod(), host.pod()
    ports = [mapping(5353, 53, protocol="udp")]
    host.join(pod, ports=ports)
    forgotten: list[int] = []
    monkeypatch.setattr(conntrack, "forget", lambda _forwards, family: forgotten.append(family))
    with host.namespace.entered():
        info = connect_pod.plan(host.request(other, ports=ports))
        with pytest.raises(NetworkError, match=f"port is already allocated.*{pod.uuid}"):
            connect_pod.carry_out(info)
        assert connect_pod.tear_down(info) == []
    assert forgotten == []
    assert host.leave(pod) == []
    assert forgotten == [4]
    assert_clean(host)


def test_pods_whose_uuids_start_alike(tool: str, host: NetworkHost) -> None:
    """Names of devices and chains have no room for more: the second pod is refused."""
    pod, other = host.pod(), host.pod()
    other.uuid = pod.uuid[:8] + other.uuid[8:]
    host.join(pod, ports=[mapping(8080, 80)])
    before = host.links(), host.rules(), host.leases()
    with host.namespace.entered():
        info = connect_pod.plan(host.request(other, ports=[mapping(8081, 80)]))
        with pytest.raises(NetworkError, match=f"same 8 digits .*{pod.uuid}"):
            connect_pod.carry_out(info)
        assert connect_pod.tear_down(info) == []
    assert (host.links(), host.rules(), host.leases()) == before
    assert host.leave(pod) == []
    assert_clean(host)


def test_a_failing_tool_is_quoted(tool: str, host: NetworkHost) -> None:
    with (
        host.namespace.entered(),
        pytest.raises(NetworkError, match=f"rules: {TOOLS[tool]}.*: "),
    ):
        firewall.apply(tool, [firewall_rules()])


def firewall_rules() -> Rules:
    """Return rules that no tool accepts."""
    return Rules("ocipod-x", 4, "no address", "no network")
