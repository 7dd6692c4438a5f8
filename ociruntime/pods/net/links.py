"""Configure network interfaces (links), addresses and routes with rtnetlink(7).

Functions that remove something succeed if it does not exist.  Functions that create something fail
if it exists, unless their docstring says otherwise.
"""

from __future__ import annotations

import os
from errno import EEXIST, ENODEV, ESRCH
from struct import calcsize, pack, unpack_from

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.files import is_there
from ociruntime.base.rtnetlink import (
    ADDRESS,
    IFLA_IFNAME,
    IFLA_NET_NS_FD,
    LINK,
    NLM_F_DUMP,
    NLM_F_NEW,
    ROUTE,
    RTM_GETLINK,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    Link,
    Rtnetlink,
    attribute,
    attributes,
    in_namespace,
)
from ociruntime.base.rtnetlink import inside as in_other_namespace
from ociruntime.pods.net.addresses import Address, Network

RTM_DELLINK, RTM_DELROUTE = 17, 25

IFLA_MTU, IFLA_MASTER, IFLA_LINKINFO, IFLA_IFALIAS = 4, 10, 18, 20
IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 1, 2, 4, 5
VETH_INFO_PEER = 1
IFLA_BRPORT_MODE = 4  # hairpin

IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS = 1, 2, 4, 8
IFA_F_NODAD = 0x02

RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC = 1, 4, 5, 7
RT_TABLE_MAIN = 254
RTPROT_BOOT = 3
RTN_UNICAST = 1
SCOPE_UNIVERSE, SCOPE_LINK, SCOPE_HOST, SCOPE_NOWHERE = 0, 253, 254, 255

AF_INET = 2
LOOPBACK_INDEX = 1
LONGEST_NAME = 15

NLA_NESTED = 0x8000


def open_namespace(path: str) -> int:
    """Open the network namespace ``path``; return its descriptor.

    Raises NetworkError if it cannot be opened.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NetworkError(f'open the network namespace "{path}": {reason(error)}') from None


def links_inside(namespace: int, path: str) -> Rtnetlink:
    """Return a netlink socket in the network namespace with the descriptor ``namespace``.

    Raises NetworkError, whose message contains ``path``, if the namespace cannot be entered.
    """
    try:
        return in_namespace(namespace)
    except OSError as error:
        raise NetworkError(f'enter the network namespace "{path}": {reason(error)}') from None


def hardware_text(link: Link) -> str:
    """Return the MAC address of an interface as text, such as ``02:42:ac:11:00:02``."""
    return ":".join(f"{byte:02x}" for byte in link.hardware)


def find(links: Rtnetlink, name: str) -> Link:
    """Return the interface ``name``.  Raises OSError (ENODEV) if it does not exist."""
    link = links.link(name)
    if link is None:
        raise OSError(ENODEV, f'interface "{name}" not found')
    return link


def make_veth(links: Rtnetlink, name: str, namespace: int, inside: str, mtu: int) -> Link:
    """Create a veth pair with the ends ``name`` on the host and ``inside`` in ``namespace``.

    ``namespace`` is a descriptor of the pod's network namespace.  Both ends ignore router
    advertisements.  Returns the host's end.  Raises OSError if the kernel refuses a request,
    NetworkError if a sysctl cannot be set.
    """
    size = attribute(IFLA_MTU, pack("=I", mtu)) if mtu else b""
    peer = pack(LINK, 0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, _text(inside))
    peer += attribute(IFLA_NET_NS_FD, pack("=I", namespace)) + size
    _make(links, name, b"veth", attribute(VETH_INFO_PEER | NLA_NESTED, peer), size)
    ignore_advertisements(name)
    in_other_namespace(namespace, lambda: set_sysctl_if_known(ACCEPT_RA.format(inside), "0"))
    return find(links, name)


def make_bridge(links: Rtnetlink, name: str, mtu: int, alias: str) -> bool:
    """Create the bridge ``name`` if it is missing, and bring it up; return whether it was created.

    A new bridge gets the MTU ``mtu`` (0: the kernel's default) and the interface alias ``alias``.
    ``links`` must be a netlink socket in the network namespace of this thread.  Raises OSError if
    the kernel refuses a request, NetworkError if a sysctl cannot be set.
    """
    size = attribute(IFLA_MTU, pack("=I", mtu)) if mtu else b""
    made = True
    try:
        _make(links, name, b"bridge", b"", size)
    except OSError as error:
        if error.errno != EEXIST:
            raise
        made = False
    index = find(links, name).index
    if made:
        alias_data = attribute(IFLA_IFALIAS, alias.encode())
        links.request(RTM_NEWLINK, pack(LINK, 0, 0, index, 0, 0) + alias_data)
    ignore_advertisements(name)
    links.set_up(index)
    return made


def ignore_advertisements(name: str) -> None:
    """Make the host ignore IPv6 router advertisements and redirects on the interface ``name``.

    Otherwise a container with CAP_NET_RAW could give the host an address and a default route by
    sending a router advertisement (CVE-2020-10749, CVE-2020-13401).  Raises NetworkError if a
    sysctl cannot be set.
    """
    for setting in (ACCEPT_RA, ACCEPT_REDIRECTS):
        set_sysctl_if_known(setting.format(name), "0")


def _make(links: Rtnetlink, name: str, kind: bytes, data: bytes, more: bytes) -> None:
    info = attribute(IFLA_INFO_KIND, kind)
    if data:
        info += attribute(IFLA_INFO_DATA | NLA_NESTED, data)
    body = pack(LINK, 0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, _text(name)) + more
    body += attribute(IFLA_LINKINFO | NLA_NESTED, info)
    links.request(RTM_NEWLINK, body, NLM_F_NEW)


def remove(links: Rtnetlink, name: str) -> bool:
    """Remove the interface ``name``, with its peer if it is a veth; return whether it existed.

    Raises OSError if the kernel refuses the request.
    """
    body = pack(LINK, 0, 0, 0, 0, 0) + attribute(IFLA_IFNAME, _text(name))
    try:
        links.request(RTM_DELLINK, body)
    except OSError as error:
        if error.errno == ENODEV:
            return False
        raise
    return True


def join_bridge(links: Rtnetlink, index: int, bridge: int, hairpin: bool) -> None:
    """Add the interface ``index`` to the bridge with the index ``bridge``.

    With ``hairpin``, the bridge may send a packet back through the interface on which it arrived.
    Raises OSError if the kernel refuses a request.
    """
    body = pack(LINK, 0, 0, index, 0, 0) + attribute(IFLA_MASTER, pack("=I", bridge))
    links.request(RTM_NEWLINK, body)
    if hairpin:
        data = attribute(IFLA_BRPORT_MODE, b"\1")
        info = attribute(IFLA_INFO_SLAVE_KIND, b"bridge")
        info += attribute(IFLA_INFO_SLAVE_DATA | NLA_NESTED, data)
        body = pack(LINK, 0, 0, index, 0, 0) + attribute(IFLA_LINKINFO | NLA_NESTED, info)
        links.request(RTM_NEWLINK, body)


def bridge_facts(links: Rtnetlink, name: str) -> tuple[str, str, int]:
    """Return (kind, alias, number of bridge ports) of the interface ``name``.

    The kind is the kernel's name of the link type, such as "bridge" or "veth".  Returns ("", "", 0)
    if the interface does not exist.
    """
    bridge = links.link(name)
    if bridge is None:
        return "", "", 0
    kind = alias = ""
    ports = 0
    for answer in links.request(RTM_GETLINK, pack(LINK, 0, 0, 0, 0, 0), NLM_F_DUMP):
        _, _, index, _, _ = unpack_from(LINK, answer)
        members = attributes(answer[calcsize(LINK) :])
        if index == bridge.index:
            alias = members.get(IFLA_IFALIAS, b"").rstrip(b"\0").decode(errors="replace")
            info = attributes(members.get(IFLA_LINKINFO, b""))
            kind = info.get(IFLA_INFO_KIND, b"").rstrip(b"\0").decode(errors="replace")
        ports += members.get(IFLA_MASTER) == pack("=I", bridge.index)
    return kind, alias, ports


def give_address(links: Rtnetlink, index: int, network: Network) -> None:
    """Add the address ``network`` to the interface ``index``; do nothing if it has this address.

    Raises OSError if the kernel refuses the address.
    """
    packed = network.address.packed
    flags = 0 if network.family == AF_INET else IFA_F_NODAD
    body = pack(ADDRESS, network.family, network.prefix, 0, SCOPE_UNIVERSE, index)
    body += attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
    if network.family == AF_INET and network.prefix < 31:
        body += attribute(IFA_BROADCAST, network.last.packed)
    body += attribute(IFA_FLAGS, pack("=I", flags))
    _once(links, RTM_NEWADDR, body)


def add_route(
    links: Rtnetlink,
    target: Network,
    index: int,
    gateway: Address | None = None,
    source: Address | None = None,
    scope: int = SCOPE_UNIVERSE,
) -> None:
    """Add a route to ``target`` through the interface ``index``; do nothing if the route exists.

    Raises OSError if the kernel refuses the route.
    """
    family = target.family
    body = pack(
        ROUTE, family, target.prefix, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, scope, RTN_UNICAST, 0
    )
    if target.prefix:
        body += attribute(RTA_DST, target.first.packed)
    body += attribute(RTA_OIF, pack("=I", index))
    if gateway is not None:
        body += attribute(RTA_GATEWAY, gateway.packed)
    if source is not None:
        body += attribute(RTA_PREFSRC, source.packed)
    _once(links, RTM_NEWROUTE, body)


def remove_subnet_route(links: Rtnetlink, network: Network, index: int) -> None:
    """Remove the route to a subnet that the kernel added together with the address ``network``.

    ``index`` is the index of the interface that has this address.  Does nothing if there is no such
    route.  Raises OSError if the kernel refuses the request.
    """
    body = pack(ROUTE, network.family, network.prefix, 0, 0, RT_TABLE_MAIN, 0, SCOPE_NOWHERE, 0, 0)
    body += attribute(RTA_DST, network.first.packed) + attribute(RTA_OIF, pack("=I", index))
    try:
        links.request(RTM_DELROUTE, body)
    except OSError as error:
        if error.errno != ESRCH:
            raise


def link_of_route(links: Rtnetlink, address: Address) -> int:
    """Return the index of the interface through which packets to ``address`` are routed.

    Raises OSError if there is no route.
    """
    body = pack(ROUTE, address.family, address.bits, 0, 0, 0, 0, 0, 0, 0)
    answer = links.request(RTM_GETROUTE, body + attribute(RTA_DST, address.packed))[0]
    return int(unpack_from("=I", attributes(answer[calcsize(ROUTE) :])[RTA_OIF])[0])


def _once(links: Rtnetlink, kind: int, body: bytes) -> None:
    try:
        links.request(kind, body, NLM_F_NEW)
    except OSError as error:
        if error.errno != EEXIST:
            raise


def _text(name: str) -> bytes:
    return name.encode() + b"\0"


FORWARDING = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}
ACCEPT_RA = "ipv6/conf/{}/accept_ra"
ACCEPT_REDIRECTS = "ipv6/conf/{}/accept_redirects"


def set_sysctl(name: str, value: str) -> None:
    """Set the sysctl ``name``, a path below /proc/sys/net, to ``value``.

    Raises NetworkError if it cannot be set.
    """
    path = f"/proc/sys/net/{name}"
    try:
        with open(path, encoding="utf-8") as file:
            if file.read().strip() == value:
                return
        with open(path, "w", encoding="utf-8") as file:
            file.write(value)
    except OSError as error:
        raise NetworkError(f'set "{path}" to {value}: {reason(error)}') from None


def set_sysctl_if_known(name: str, value: str) -> None:
    """Set the sysctl ``name`` as ``set_sysctl`` does, but do nothing if the kernel lacks it."""
    if is_there(f"/proc/sys/net/{name}"):
        set_sysctl(name, value)
