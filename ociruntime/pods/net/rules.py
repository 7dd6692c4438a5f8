"""Packet filter rules for an interface of a pod, independent of nft and iptables."""

from __future__ import annotations

# Digits of a pod's UUID in names that are too short for all: of veth devices, iptables' chains.
DIGITS = 8


class Forward:
    """A host port forwarded to a port of the pod; ``host_ip`` "" means all the host's addresses."""

    __slots__ = ("host_ip", "host_port", "pod_port", "protocol")

    def __init__(self, protocol: str, host_ip: str, host_port: int, pod_port: int) -> None:
        self.protocol = protocol  # tcp, udp, sctp
        self.host_ip = host_ip
        self.host_port = host_port
        self.pod_port = pod_port


class Rules:
    """Rules for one family (4 or 6); either part may be empty.

    ``masquerade`` is the subnet that the pod reaches under its own address; packets elsewhere get
    the host's address.  "" for none.  ``link`` is the host's interface to the pod: packets from
    there to 127.0.0.0/8 are dropped, because route_localnet makes those addresses routable.

    ``bridge`` is the host's bridge of an isolated network: connections from other networks to it
    are dropped, except to forwarded ports.  With ``internal``, so are those from the bridge to
    other networks.  "" for a network that is not isolated.  Addresses do not matter for this, since
    a pod can use others than its own; ``address`` is "" if it has none of the family.
    """

    __slots__ = ("address", "bridge", "family", "forwards", "internal", "link", "masquerade", "tag")

    def __init__(
        self,
        tag: str,
        family: int,
        address: str,
        masquerade: str = "",
        forwards: tuple[Forward, ...] = (),
        link: str = "",
        bridge: str = "",
        internal: bool = False,
    ) -> None:
        self.tag = tag
        self.family = family
        self.address = address  # the pod's
        self.masquerade = masquerade
        self.forwards = forwards
        self.link = link
        self.bridge = bridge
        self.internal = internal


def tag(uuid: str, interface: str, purpose: str) -> str:
    """Return a name for tables; iptables' chains have a shorter one."""
    return f"ocipod-{uuid}-{interface}-{purpose}"
