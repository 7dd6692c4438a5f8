"""What the guest is told of its networks."""

from __future__ import annotations

from typing import Any

from ociruntime.pod.kvm.network import hardware_address, lines


def network(kind: str, **result: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"plugins": [{"configuration": {"type": kind}}], "result": result}


def test_lines() -> None:
    """Behind a ptp there is nobody but the gateway."""
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


def test_hardware_addresses() -> None:
    assert hardware_address("10.1.2.255", 0) == "52:54:0a:01:02:ff"
    assert hardware_address("", 1) == "52:55:00:00:00:00"
