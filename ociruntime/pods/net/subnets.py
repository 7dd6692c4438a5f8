"""Choose a free subnet for a new network, and find the subnets in use on this host.

``network_configs.py`` has the subnet of the default network.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from struct import calcsize, pack, unpack_from
from typing import NamedTuple

from ociruntime.base.errors import HostError, NetworkError
from ociruntime.base.rtnetlink import NLM_F_DUMP, ROUTE, RTM_GETROUTE, Rtnetlink, attributes
from ociruntime.pods.net.addresses import Address, Network, parse_network
from ociruntime.pods.net.links import RTA_DST, RTA_GATEWAY
from ociruntime.pods.net.network_configs import Configuration

AF_INET, AF_INET6 = 2, 10
# The first free /24 network of this range is chosen: podman's range, which docker does not use.
POOL = (parse_network("10.89.0.0/24"), 11 << 8)
RTA_MULTIPATH = 9


class Used(NamedTuple):
    """A subnet in use; ``is_connected`` is False if this host reaches it through a gateway."""

    subnet: Network
    is_connected: bool


def overlap(one: Network, other: Network) -> bool:
    """Return whether two networks have an address in common."""
    return one.first in other or other.first in one


def subnets_of(configuration: Configuration) -> list[Network]:
    """Return the subnets from which the IPAM plugin of a network assigns addresses."""
    return [subnet for subnet, _ in ranges_of(configuration)]


def ranges_of(configuration: Configuration) -> list[tuple[Network, str]]:
    """Return (subnet, gateway) for each address range of a network.

    Invalid ranges are ignored.
    """
    result = []
    for plugin in configuration.plugins:
        ipam = plugin.get("ipam") or {}
        sets = ipam.get("ranges")
        sets = sets if isinstance(sets, list) else []
        ranges = [one for each in sets if isinstance(each, list) for one in each]
        for one in [ipam, *ranges]:
            try:
                subnet = parse_network(one["subnet"]).subnet
                gateway = one.get("gateway") or str(subnet.first.offset(1))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue
            result.append((subnet, str(gateway)))
    return result


def used_by_host() -> list[Used]:
    """Return the subnets in this host's routing tables, without default routes.

    Raises HostError if the routes cannot be listed.
    """
    subnets = []
    try:
        links = Rtnetlink()
        try:
            for family in (AF_INET, AF_INET6):
                request = pack(ROUTE, family, 0, 0, 0, 0, 0, 0, 0, 0)
                for answer in links.request(RTM_GETROUTE, request, NLM_F_DUMP):
                    prefix = unpack_from(ROUTE, answer)[1]
                    members = attributes(answer[calcsize(ROUTE) :])
                    if not prefix or RTA_DST not in members:
                        continue  # a default route
                    target = Address(family, int.from_bytes(members[RTA_DST], "big"))
                    is_connected = not members.keys() & {RTA_GATEWAY, RTA_MULTIPATH}
                    subnets.append(Used(Network(target, prefix), is_connected))
        finally:
            links.close()
    except OSError as error:
        raise HostError("list the routes of this host", error) from None
    return subnets


def free_subnet(taken: Iterable[Network]) -> Network:
    """Return an IPv4 /24 subnet that does not overlap any of ``taken``.

    The candidates are the subnets from 10.89.0.0 to 10.99.255.255.  Raises NetworkError if all of
    them are taken.
    """
    first, count = POOL
    avoided = [one for one in taken if one.family == AF_INET]
    step = 1 << (first.address.bits - first.prefix)
    for number in range(count):
        one = Network(first.address.offset(number * step), first.prefix)
        if not any(overlap(one, other) for other in avoided):
            return one
    raise NetworkError(
        "choose a subnet for the network: all of 10.89.0.0 to 10.99.255.255 is in use",
        "set one with --subnet",
    )


def random_subnet6() -> Network:
    """Return a random IPv6 /64 subnet for private use (RFC 4193)."""
    return Network(Address(AF_INET6, int.from_bytes(b"\xfd" + os.urandom(5), "big") << 80), 64)
