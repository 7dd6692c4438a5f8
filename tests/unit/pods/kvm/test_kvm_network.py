"""The network settings for the guest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.kvm import network as machine_network
from ociruntime.pods.kvm.network import connect_taps, hardware_address, lines

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it enters namespaces")


def network(kind: str, **result: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"plugins": [{"configuration": {"type": kind}}], "result": result}


def test_lines() -> None:
    """On a ptp network, there is only the gateway."""
    ips = [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"}, {"address": "fd00::2/64"}]
    everything = {"dst": "0.0.0.0/0"}
    assert lines(
        [
            network("ptp", ips=ips, routes=[everything, {"dst": "::/0"}]),
            network("bridge", ips=ips, routes=[{"dst": "10.9.0.0/16", "gw": "10.1.2.9"}]),
            network("dummy"),
        ]
    ) == [
        "a 0 10.1.2.3 255.255.255.255",
        "r 0 10.1.2.1 255.255.255.255",
        "r 0 0.0.0.0 0.0.0.0 10.1.2.1",
        "a 1 10.1.2.3 255.255.255.0",
        "r 1 10.9.0.0 255.255.0.0 10.1.2.9",
    ]


def test_a_network_without_ipv4() -> None:
    alone = {"name": "six", **network("bridge", ips=[{"address": "fd00::2/64"}])}
    with pytest.raises(PodError, match=r'"six": .*IPv4 address .*only fd00::2/64'):
        lines([alone])


def test_hardware_addresses() -> None:
    assert hardware_address("10.1.2.255", 0) == "52:54:0a:01:02:ff"
    assert hardware_address("", 1) == "52:55:00:00:00:00"


@needs_root
def test_a_namespace_that_is_none() -> None:
    with pytest.raises(HostError, match=r'namespace .*": invalid argument'):
        connect_taps("/proc/self/ns/uts", [])


@needs_root
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tun", 'open ".*/tun": no such file or directory .*modprobe tun'),
        ("/dev/null", "network: inappropriate ioctl for device"),
    ],
)
def test_a_host_without_taps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, message: str
) -> None:
    monkeypatch.setattr(machine_network, "DEVICE", str(tmp_path / device))
    with pytest.raises(HostError, match=message):
        connect_taps("/proc/self/ns/net", [network("bridge")])
