"""What the packet filter is to do for one interface of a pod, for whichever program makes it so."""

from __future__ import annotations


class Forward:
    """A port of the host that leads to one of the pod; ``host_ip`` "" means any of the host's."""

    __slots__ = ("host_ip", "host_port", "pod_port", "protocol")

    def __init__(self, protocol: str, host_ip: str, host_port: int, pod_port: int) -> None:
        self.protocol = protocol  # tcp, udp, sctp
        self.host_ip = host_ip
        self.host_port = host_port
        self.pod_port = pod_port


class Rules:
    """Either part may be empty; ``family`` is 4 or 6.

    ``masquerade``: the subnet which the pod reaches under its own address; anything else sees the
    host's.  "" for none.  ``link``: the host's device that leads to the pod; what comes from there
    for 127.0.0.0/8 is dropped, because forwarding the host's loopback makes those addresses
    routable.
    """

    __slots__ = ("address", "family", "forwards", "link", "masquerade", "tag")

    def __init__(
        self,
        tag: str,
        family: int,
        address: str,
        masquerade: str = "",
        forwards: tuple[Forward, ...] = (),
        link: str = "",
    ) -> None:
        self.tag = tag
        self.family = family
        self.address = address  # the pod's
        self.masquerade = masquerade
        self.forwards = forwards
        self.link = link


def tag(uuid: str, interface: str, purpose: str) -> str:
    """A name for tables; with ``-D`` behind it fits into the 28 characters of iptables."""
    return f"ocipod-{uuid[:8]}-{interface}-{purpose}"
