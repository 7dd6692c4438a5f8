"""Interfaces, sysctls and flows whose changes the kernel refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from ociruntime.base.errors import NetworkError
from ociruntime.base.rtnetlink import Rtnetlink, attribute
from ociruntime.pods.net import conntrack, firewall, ipam, links
from ociruntime.pods.net.addresses import parse_address, parse_network
from ociruntime.pods.net.builtin import bridge, loopback, portmap, veth_pair
from ociruntime.pods.net.firewall_rules import Forward, Rules
from ociruntime.pods.net.plugin_parameters import PluginCall
from tests.support.netns import NetworkNamespace

Namespaces = Callable[[], NetworkNamespace]


def call(kind: str, namespace: str = "/none", state: str = "/none", **more: object) -> PluginCall:
    configuration = {"name": "lan", "cniVersion": "1.0.0", "type": kind, **more}
    return PluginCall("1a2b3c4d-0", namespace, "eth0", "", configuration, (), state, "nft")


class RefusingLinks:
    """A netlink socket whose requests all fail with EIO."""

    closed = 0

    def request(self, *_: object) -> list[bytes]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def link(self, _: str) -> None:
        self.request()

    def close(self) -> None:
        type(self).closed += 1


def test_a_namespace_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r'open the .* namespace "/none": no such file'):
        loopback.bring_up("/none")
    file = tmp_path / "file"
    file.touch()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NetworkError, match=f'enter the .* namespace "{file}": invalid arg'):
        loopback.bring_up(str(file))
    assert os.listdir("/proc/self/fd") == before


def test_loopback_at_the_end_of_a_chain(namespaces: Namespaces) -> None:
    """It has no settings, and returns the result of the previous plugin."""
    path = namespaces().path
    loopback.validate(call("loopback"))
    made = loopback.add(call("loopback", path))
    assert made["interfaces"] == [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": path}]
    assert made["ips"] == [{"interface": 0, "address": "127.0.0.1/8"}]
    before = {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}
    assert loopback.add(call("loopback", path, prevResult=before)) == before
    loopback.check(call("loopback", path))
    loopback.delete(call("loopback", path))
    loopback.check(call("loopback", path))
    assert loopback.tags(call("loopback", path)) == []


def test_a_sysctl_that_the_kernel_lacks() -> None:
    with pytest.raises(NetworkError, match='set "/proc/sys/net/none" to 1: no such file'):
        links.set_sysctl("none", "1")
    links.set_sysctl_if_known("none", "1")


def test_requests_that_succeed_at_the_second_time(namespaces: Namespaces) -> None:
    """Existing or missing objects are no errors; anything else is."""
    with namespaces().entered():
        socket = Rtnetlink()
        try:
            assert links.make_bridge(socket, "pods0", 0, "alias")
            assert not links.make_bridge(socket, "pods0", 0, "alias")
            index = links.find(socket, "pods0").index
            network = parse_network("10.7.0.1/24")
            for _ in range(2):
                links.give_address(socket, index, network)
                links.add_route(socket, parse_network("10.8.0.0/24"), index, None)
            links.remove_subnet_route(socket, network, index)
            links.remove_subnet_route(socket, network, index)
            for _ in range(2):
                links.remove(socket, "pods0")
            with pytest.raises(OSError, match="No such device"):
                links.add_route(socket, parse_network("10.8.0.0/24"), 99, None)
            with pytest.raises(OSError, match="not found"):
                links.find(socket, "pods0")
        finally:
            socket.close()


def test_a_refused_request_is_not_taken_for_done() -> None:
    refusing: Any = RefusingLinks()
    network = parse_network("10.7.0.1/24")
    for attempt in (
        lambda: links.remove_subnet_route(refusing, network, 1),
        lambda: links.make_bridge(refusing, "pods0", 0, "alias"),
        lambda: links.give_address(refusing, 1, network),
    ):
        with pytest.raises(OSError, match="Input/output error"):
            attempt()


def test_a_bridge_with_the_name_of_another_interface(namespaces: Namespaces) -> None:
    host = namespaces()
    host.run("ip", "link", "add", "pods0", "type", "veth", "peer", "name", "other")
    with host.entered():
        socket: Any = Rtnetlink()
        try:
            with pytest.raises(NetworkError, match=r'bridge "pods0": the interface is .* a bridge'):
                bridge._plug_in(call("bridge"), socket, socket, 0, "pods0")
            assert socket.link("veth1a2b3c4d-0") is None
        finally:
            socket.close()


def test_a_pod_with_an_interface_of_this_name(namespaces: Namespaces) -> None:
    host, pod = namespaces(), namespaces()
    pod.run("ip", "link", "add", "eth0", "type", "bridge")
    one = call("ptp", pod.path)

    def make(here: Any, inside: Any, namespace: int) -> None:  # noqa: ANN401
        veth_pair.make(one, here, inside, namespace, veth_pair.host_name(one))

    with host.entered():
        message = 'network "lan": create interface "eth0": .*already has an interface "eth0"'
        with pytest.raises(NetworkError, match=message):
            veth_pair.at_both_ends(one, "eth0", make)
        socket = Rtnetlink()
        assert socket.link(veth_pair.host_name(one)) is None
        socket.close()


def test_bridges_that_are_checked(namespaces: Namespaces, monkeypatch: pytest.MonkeyPatch) -> None:
    one = call("bridge", bridge="pods0")
    monkeypatch.setattr(ipam, "check", lambda _: None)
    host = namespaces()
    with host.entered():
        with pytest.raises(NetworkError, match='interface "veth1a2b3c4d-0" is missing'):
            bridge.check(one)
        host.run("ip", "link", "add", "veth1a2b3c4d-0", "type", "veth", "peer", "name", "x")
        with pytest.raises(NetworkError, match='interface "veth1a2b3c4d-0" is down'):
            bridge.check(one)
        host.run("ip", "link", "set", "veth1a2b3c4d-0", "up")
        with pytest.raises(NetworkError, match=r'network "lan": bridge "pods0" is missing .* has'):
            bridge.check(one)
        host.run("ip", "link", "add", "pods0", "type", "bridge")
        with pytest.raises(NetworkError, match=r'bridge "pods0" is missing .* has no ports'):
            bridge.check(one)
        host.run("ip", "link", "set", "veth1a2b3c4d-0", "master", "pods0")
        bridge.check(one)


@pytest.mark.parametrize(
    ("action", "module", "message"),
    [
        (veth_pair.remove, veth_pair, 'remove interface "veth1a2b3c4d-0": input/output error'),
        (veth_pair.check, veth_pair, 'inspect interface "veth1a2b3c4d-0": input/output error'),
        (bridge.check, bridge, 'inspect bridge "cni0": input/output error'),
    ],
)
def test_interfaces_that_cannot_be_inspected(
    monkeypatch: pytest.MonkeyPatch,
    action: Callable[[PluginCall], None],
    module: object,
    message: str,
) -> None:
    if module is bridge:
        monkeypatch.setattr(ipam, "check", lambda _: None)
        monkeypatch.setattr(veth_pair, "check", lambda _: None)
    monkeypatch.setattr(module, "Rtnetlink", RefusingLinks)
    closed = RefusingLinks.closed
    with pytest.raises(NetworkError, match=f'network "lan": {message}'):
        action(call("bridge"))
    assert RefusingLinks.closed == closed + 1


@pytest.mark.parametrize("name", ["file", "file/lock"])
def test_the_lock_of_bridges(tmp_path: Path, name: str) -> None:
    """Its directory is a file, or the lock is a directory."""
    state = tmp_path / "file"
    if "/" in name:
        (state / bridge.LOCK).mkdir(parents=True)
    else:
        state.touch()
    with pytest.raises(NetworkError, match=f"{state}"):
        bridge._lock(call("bridge", state=str(state)))


def test_a_route_to_the_pod(namespaces: Namespaces, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "forward ports: .* 10.5.0.7: "
    with namespaces().entered():
        with pytest.raises(NetworkError, match=f"{message}network is unreachable"):
            portmap._link_to("10.5.0.7")
        monkeypatch.setattr(portmap, "link_of_route", lambda *_: 99)
        with pytest.raises(NetworkError, match=f"{message}not found"):
            portmap._link_to("10.5.0.7")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"protocol": "icmp", "hostPort": 1, "containerPort": 1}, 'unknown protocol "icmp"'),
        ({"hostPort": 80}, "invalid port mapping: 'containerPort'"),
        ({"hostPort": "x", "containerPort": 1}, "invalid port mapping: invalid literal"),
        ({"hostPort": [], "containerPort": 1}, "invalid port mapping: int"),
        ({"hostPort": 1, "containerPort": 1, "hostIP": "x"}, "invalid port mapping: .*address"),
        ({"hostPort": 65536, "containerPort": 1}, "host port 65536 to port 1: port numbers must"),
        ({"hostPort": 1, "containerPort": 0}, "host port 1 to port 0: port numbers .* be 1 to"),
    ],
)
def test_port_mappings_that_are_refused(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        portmap._forward(mapping)


def test_portmap_is_no_first_plugin() -> None:
    with pytest.raises(NetworkError, match=r'"lan": the plugin ".*" must follow another'):
        portmap.add(call("portmap"))


@pytest.mark.parametrize("host_ip", ["", "192.0.2.1", "2001:db8::1"])
@pytest.mark.parametrize("missing", [4, 6])
def test_forwarding_rules_are_checked(
    monkeypatch: pytest.MonkeyPatch, missing: int, host_ip: str
) -> None:
    """Rules must exist of each family in which a port is forwarded to an address of the pod."""
    ports = [{"hostPort": 80, "containerPort": 80, "hostIP": host_ip}]
    pod = {"ips": [{"address": "10.5.0.7/24"}, {"address": "fd00::7/64"}]}
    one = call("portmap", runtimeConfig={"portMappings": ports}, prevResult=pod)
    monkeypatch.setattr(firewall, "present", lambda *_: True)
    portmap.check(one)
    monkeypatch.setattr(firewall, "present", lambda tool, tag, family: family != missing)
    if host_ip and (":" in host_ip) != (missing == 6):
        portmap.check(one)
    else:
        with pytest.raises(NetworkError, match=f'"lan": the IPv{missing} rules .* are missing'):
            portmap.check(one)
    portmap.check(call("portmap"))


def test_tools_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool has been uninstalled since the pod was connected."""
    programs: set[str] = set()
    monkeypatch.setattr(firewall, "find_program", lambda name: name if name in programs else "")
    assert firewall.find_tool() == ""
    programs.add("iptables-restore")
    assert firewall.find_tool() == ""
    programs.add("iptables-save")
    assert firewall.find_tool() == firewall.IPTABLES
    programs.add("nft")
    assert firewall.find_tool() == firewall.NFT
    programs.clear()
    rules = [Rules("tag", 4, "10.0.0.2", "10.0.0.0/24")]
    for tool, package in ((firewall.NFT, "nftables"), (firewall.IPTABLES, "iptables")):
        with pytest.raises(NetworkError, match="is not installed") as caught:
            firewall.apply(tool, rules)
        assert caught.value.hint == f"install {package}"
        firewall.remove(tool, [("tag", 4), ("tag", 6)])


class Tracking:
    """The kernel's connection table: answers to a dump, and the deleted entries."""

    def __init__(self, flows: Sequence[bytes], error: type[OSError] | None = None) -> None:
        self.flows = flows
        self.error = error
        self.deleted: list[bytes] = []
        self.closed = False

    def request(self, kind: int, body: bytes, flags: int = 0) -> Sequence[bytes]:
        del flags
        if kind == conntrack.GET:
            return self.flows
        if self.error is not None:
            raise self.error
        self.deleted.append(body)
        return ()

    def close(self) -> None:
        self.closed = True


def flow(protocol: int, address: str, port: int) -> bytes:
    """Return an entry of the table, as the kernel sends it."""
    ip = attribute(2, parse_address(address).packed)
    proto = attribute(conntrack.CTA_PROTO_NUM, bytes([protocol]))
    proto += attribute(conntrack.CTA_PROTO_DST_PORT, pack(">H", port))
    tuple_ = attribute(conntrack.CTA_TUPLE_IP, ip) + attribute(conntrack.CTA_TUPLE_PROTO, proto)
    entry = attribute(conntrack.CTA_TUPLE_ORIG, tuple_) + attribute(conntrack.CTA_ID, b"\1\2\3\4")
    return pack(conntrack.HEADER, 2, 0, 0) + entry


def forget(monkeypatch: pytest.MonkeyPatch, tracking: Tracking) -> None:
    monkeypatch.setattr(conntrack, "Rtnetlink", lambda _: tracking)
    conntrack.forget([Forward("udp", "", 5353, 53), Forward("tcp", "", 80, 80)], 4)
    assert tracking.closed


def test_only_flows_to_our_ports_on_the_host_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = flow(17, "127.0.0.1", 5353)
    flows = [
        flow(6, "127.0.0.1", 5353),
        flow(17, "127.0.0.1", 80),
        flow(17, "192.0.2.1", 5353),  # passes through the host to another one
        ours,
    ]
    tracking = Tracking(flows)
    forget(monkeypatch, tracking)
    (deleted,) = tracking.deleted
    assert attribute(conntrack.CTA_ID, b"\1\2\3\4") in deleted
    assert pack(">H", 5353) in deleted


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_flows_that_cannot_be_deleted(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """One that has timed out does not keep the others; without a permission, nothing is done."""
    attempts: list[int] = []
    tracking = Tracking([flow(17, "127.0.0.1", 5353)] * 2, error)
    original = tracking.request

    def count(kind: int, body: bytes, flags: int = 0) -> Sequence[bytes]:
        attempts.append(kind)
        return original(kind, body, flags)

    monkeypatch.setattr(tracking, "request", count)
    forget(monkeypatch, tracking)
    assert attempts.count(conntrack.DELETE) == (2 if error is FileNotFoundError else 1)


def test_a_kernel_without_connection_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EPROTONOSUPPORT, "protocol not supported")

    monkeypatch.setattr(conntrack, "Rtnetlink", refuse)
    conntrack.forget([Forward("udp", "", 5353, 53)], 4)
    conntrack.forget([Forward("tcp", "", 80, 80)], 4)
