"""Packet filter rules for an interface of a pod, independent of nft and iptables."""

from __future__ import annotations

# Digits of a pod's UUID in names with a length limit: of veth devices and iptables chains.
DIGITS = 8


class Forward:
    """A host port forwarded to a pod's port; ``host_ip`` is "" for all addresses of the host."""

    __slots__ = ("host_ip", "host_port", "pod_port", "protocol")

    def __init__(self, protocol: str, host_ip: str, host_port: int, pod_port: int) -> None:
        self.protocol = protocol  # tcp, udp, sctp
        self.host_ip = host_ip
        self.host_port = host_port
        self.pod_port = pod_port


class Rules:
    """Packet filter rules for a pod's interface and one IP ``family`` (4 or 6).

    ``address`` is the pod's address, or "" if it has no address of this family.  ``masquerade`` is
    a subnet: the pod's packets to this subnet keep their source address, and its packets to other
    addresses get an address of the host.  If ``masquerade`` is "", no packets are masqueraded.
    ``link`` is the host's interface to the pod: packets from this interface to 127.0.0.0/8 are
    dropped, because route_localnet makes these addresses routable.

    ``bridge`` is the host's bridge of an isolated network, or "" if the network is not isolated.
    Connections from other networks to the bridge are dropped, except to forwarded ports.  With
    ``internal``, connections from the bridge to other networks are dropped, too.  These rules match
    interfaces instead of addresses, because a pod can send packets with any source address.
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
    """Return the tag of packet filter rules for a pod's ``interface``.

    ``purpose`` is "nat" (masquerading and isolation) or "fwd" (port forwarding).  The tag is the
    name of the rules' nft table; the names of their iptables chains are derived from it.
    """
    return f"ocipod-{uuid}-{interface}-{purpose}"
