"""What the packet filter is to do for one interface of a pod, for whichever program makes it so."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Forward:
    """A port of the host that leads to one of the pod; ``host_ip`` "" means any of the host's."""

    protocol: str  # tcp, udp, sctp
    host_ip: str
    host_port: int
    pod_port: int


@dataclass(frozen=True, slots=True)
class Rules:
    """Either part may be empty; ``family`` is 4 or 6.

    ``masquerade``: the subnet which the pod reaches under its own address; anything else sees the
    host's.  "" for none.  ``link``: the host's device that leads to the pod; what comes from there
    for 127.0.0.0/8 is dropped, because forwarding the host's loopback makes those addresses
    routable.
    """

    tag: str
    family: int
    address: str  # the pod's
    masquerade: str = ""
    forwards: tuple[Forward, ...] = field(default=())
    link: str = ""


def tag(uuid: str, interface: str, purpose: str) -> str:
    """A name for tables; with ``-D`` behind it fits into the 28 characters of iptables."""
    return f"ocipod-{uuid[:8]}-{interface}-{purpose}"
