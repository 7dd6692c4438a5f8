"""The plugins inside are judged by those of the CNI project: the same configuration, the same
result, the same addresses and routes in the pod."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ociruntime.pods.net import call_plugins
from ociruntime.pods.net.plugin_parameters import WITH_FAMILY
from tests.support.network_host import NetworkHost, Pod

PROGRAMS = "/usr/lib/cni"
KINDS = ("ptp", "bridge", "host-local", "loopback", "portmap")

pytestmark = pytest.mark.skipif(
    not all(Path(PROGRAMS, kind).exists() for kind in KINDS),
    reason="containernetworking-plugins is not installed",
)

IPV4 = {"type": "host-local", "subnet": "10.7.0.0/24"}
ROUTED = {**IPV4, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.99.0.0/16", "gw": "10.7.0.9"}]}
BOTH = {
    "type": "host-local",
    "ranges": [
        [{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.20", "gateway": "10.7.0.254"}],
        [{"subnet": "fd00:7::/64"}],
    ],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
}
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "ptp": {"type": "ptp", "ipam": IPV4},
    "ptp-routes": {"type": "ptp", "ipMasq": True, "mtu": 1400, "ipam": ROUTED},
    "ptp-both": {"type": "ptp", "ipam": BOTH},
    "ptp-dns": {"type": "ptp", "ipam": IPV4, "dns": {"nameservers": ["10.7.0.1"]}},
    "bridge": {"type": "bridge", "bridge": "br7", "ipam": IPV4},
    "bridge-gateway": {
        "type": "bridge",
        "bridge": "br7",
        "isDefaultGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": IPV4,
    },
    "bridge-routes": {"type": "bridge", "isGateway": True, "ipam": ROUTED},
    "bridge-both": {"type": "bridge", "isGateway": True, "ipam": BOTH},
}


def outcome(host: NetworkHost, pod: Pod, *networks: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the visible result of a network, without values that always differ."""
    info = host.join(pod, *networks, **more)
    names: dict[str, str] = {}

    def plain(text: str) -> str:
        text = re.sub(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", "MAC", text)
        text = re.sub(r"\bveth[0-9a-f-]+\b", lambda m: names.setdefault(m[0], "VETH"), text)
        return text.replace(pod.namespace.path, "NETNS")

    links = json.loads(pod.run("ip", "-j", "addr", "show", "eth0"))
    addresses = sorted(
        f"{one['local']}/{one['prefixlen']}"
        for one in links[0]["addr_info"]
        if one["scope"] != "link"
    )
    seen = {
        "result": json.loads(plain(json.dumps(info["networks"][0]["result"]))),
        "addresses": addresses,
        "mtu": links[0]["mtu"],
        # Whether there is a carrier the kernel tells when it comes to it.
        "flags": [flag for flag in links[0]["flags"] if flag != "NO-CARRIER"],
        "routes": routes(pod, "-4"),
        "routes6": routes(pod, "-6"),
        "host": sorted(
            line for line in plain(host.run("ip", "route")).splitlines() if line.startswith("10.")
        ),
        "forwarding": host.run("cat", "/proc/sys/net/ipv4/ip_forward"),
        "leases": {
            path.name: path.read_text().replace(pod.uuid, "ID")
            for path in (host.state / "n").glob("[0-9f]*")
        },
    }
    assert host.leave(pod) == []
    seen["left"] = [name for name in host.links() if name not in ("lo", "cni0", "br7")]
    seen["left leases"] = host.leases()
    return seen


def routes(pod: Pod, family: str) -> list[str]:
    lines = pod.run("ip", family, "route", "show", "dev", "eth0").splitlines()
    return sorted(line for line in lines if "fe80" not in line and "ff00" not in line)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *((name, "1.0.0") for name in sorted(CONFIGURATIONS)),
        *((name, version) for name in ("ptp-both", "bridge-both") for version in WITH_FAMILY),
    ],
)
def test_same(host: NetworkHost, monkeypatch: pytest.MonkeyPatch, name: str, version: str) -> None:
    host.configure("n.conf", {"name": "n", "cniVersion": version, **CONFIGURATIONS[name]})
    theirs = outcome(host, host.pod(), "n")
    for bridge in ("cni0", "br7"):
        host.run("ip", "link", "delete", bridge, status=None)
    for path in (host.state / "n").glob("last_reserved_ip.*"):
        path.unlink()
    host.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
    monkeypatch.setattr("ociruntime.pods.net.network_configs.PLUGIN_DIRECTORIES", ())
    ours = outcome(host, host.pod(), "n")
    assert ours == theirs, [
        (key, ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]
    ]
    host.assert_clean()


def test_either_goes_on_where_the_other_was(
    host: NetworkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the lease files: no address is assigned twice."""
    host.configure("n.conf", {"name": "n", **CONFIGURATIONS["ptp"]})
    pods = [host.pod() for _ in range(4)]
    for i, pod in enumerate(pods):
        with monkeypatch.context() as patch:
            if i % 2:
                patch.setattr("ociruntime.pods.net.network_configs.PLUGIN_DIRECTORIES", ())
            host.join(pod, "n")
    assert [pod.info["networks"][0]["ip4"] for pod in pods] == [f"10.7.0.{i}" for i in range(2, 6)]
    for pod in pods:
        for plugin in pod.info["networks"][0]["plugins"]:
            plugin["program"] = "" if plugin["program"] else f"{PROGRAMS}/ptp"
        pod.info["directories"].append(PROGRAMS)
        assert host.leave(pod) == []
    assert host.leases() == []


def test_theirs_after_the_pod_has_died(host: NetworkHost) -> None:
    bridge = {**CONFIGURATIONS["bridge-gateway"], "ipMasq": True}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    chain = {"name": "n", "cniVersion": "1.0.0", "plugins": [bridge, portmap]}
    host.configure("n.conflist", chain)
    pod = host.pod()
    host.join(pod, "n", ports=PORTS)
    pod.namespace.close()
    assert host.leave(pod) == []
    assert host.leases() == []


def test_theirs_are_removed_while_a_pod_runs(host: NetworkHost) -> None:
    """Pods that they have connected can still leave."""
    host.configure("n.conf", {"name": "n", **CONFIGURATIONS["ptp-routes"]})
    for kind in ("ptp", "host-local"):
        shutil.copy(f"{PROGRAMS}/{kind}", host.net_d / kind)
    pod = host.pod()
    host.join(pod, "n")
    assert pod.info["networks"][0]["plugins"][0]["program"] == str(host.net_d / "ptp")
    (host.net_d / "ptp").unlink()
    (host.net_d / "host-local").unlink()
    pod.info["directories"] = [str(host.net_d)]
    pod.namespace.close()
    assert host.leave(pod) == []
    assert host.leases() == []


def test_their_portmap_behind_their_ptp(host: NetworkHost) -> None:
    plugins = [
        {"type": "ptp", "ipMasq": True, "ipam": ROUTED},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    host.configure("n.conflist", {"name": "n", "cniVersion": "1.0.0", "plugins": plugins})
    pod = host.pod()
    info = host.join(pod, "n", ports=PORTS)
    used = [plugin["program"] for plugin in info["networks"][0]["plugins"]]
    assert used == [f"{PROGRAMS}/ptp", f"{PROGRAMS}/portmap"]
    with pod.namespace.listen(80), host.namespace.connect("127.0.0.1", 8080):
        pass
    assert host.leave(pod) == []
    assert host.leave(pod) == []
    assert host.leases() == []
    assert host.links() == ["lo"]


def test_versions() -> None:
    assert "1.0.0" in call_plugins.versions(f"{PROGRAMS}/ptp")
