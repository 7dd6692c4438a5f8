"""The plugin ``ptp``: a veth pair between host and pod, and routes between them.

The host end of each pair has the gateway's address with the prefix length 32 (IPv6: 128).  The pod
reaches even its own subnet through the gateway.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.fault_injection import fault
from ociruntime.base.rtnetlink import Link, Rtnetlink
from ociruntime.pods.net import ipam
from ociruntime.pods.net.addresses import Network
from ociruntime.pods.net.builtin import veth_pair
from ociruntime.pods.net.ipam import Addresses
from ociruntime.pods.net.links import (
    FORWARDING,
    SCOPE_HOST,
    SCOPE_LINK,
    add_route,
    give_address,
    remove_subnet_route,
    set_sysctl,
)
from ociruntime.pods.net.plugin_parameters import PluginCall

KNOWN = {"ipMasq", "mtu", "ipam", "dns"}


def validate(call: PluginCall) -> None:
    """Check the configuration of a ``ptp`` network; raise NetworkError if it is invalid."""
    veth_pair.refuse_unknown(call, KNOWN)
    ipam.validate(call)


def add(call: PluginCall) -> dict[str, Any]:
    """Connect a pod to the host with a veth pair; return the CNI result.

    If this raises NetworkError, the caller must call ``delete`` to clean up.
    """
    addresses = ipam.assign(call)
    fault("network.after-address")
    name = veth_pair.host_name(call)

    def make(here: Rtnetlink, inside: Rtnetlink, namespace: int) -> tuple[Link, Link]:
        ends = veth_pair.make(call, here, inside, namespace, name)
        _configure_inside(inside, ends[1].index, addresses)
        _configure_here(here, ends[0].index, addresses)
        return ends

    ends = veth_pair.at_both_ends(call, name, make)
    fault("network.after-links")
    for one in addresses.assigned:
        set_sysctl(FORWARDING[4 if one.network.family == 2 else 6], "1")
    veth_pair.add_rules(call, [one.network for one in addresses.assigned])
    return veth_pair.result(call, ends, addresses)


def _configure_inside(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    links.set_up(index)
    for one in addresses.assigned:
        give_address(links, index, one.network)
    # Add these before the subnet's own route, which makes gateways reachable, is removed.
    veth_pair.add_routes(links, index, addresses)
    for one in addresses.assigned:
        remove_subnet_route(links, one.network, index)
        if one.gateway is not None:
            own = one.network.address
            host = Network(one.gateway, one.gateway.bits)
            add_route(links, host, index, source=own, scope=SCOPE_LINK)
            add_route(links, one.network.subnet, index, one.gateway, own)


def _configure_here(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    links.set_up(index)
    for one in addresses.assigned:
        if one.gateway is not None:
            give_address(links, index, Network(one.gateway, one.gateway.bits))
        target = Network(one.network.address, one.network.address.bits)
        add_route(links, target, index, scope=SCOPE_HOST)


def delete(call: PluginCall) -> None:
    """Undo ``add``: remove the pod's veth pair, and release its addresses.

    Attempts both steps, even if the first fails.  Raises NetworkError with all error messages if a
    step fails.
    """
    veth_pair.undo(
        [
            lambda: veth_pair.remove(call),
            lambda: ipam.release(call),
        ]
    )


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return (tag, IP family 4 or 6) of each packet filter ruleset that ``add`` can create."""
    return veth_pair.tags(call)


def check(call: PluginCall) -> None:
    """Check that the pod has its addresses, and that the host end of its veth pair is up.

    Raises NetworkError otherwise.
    """
    ipam.check(call)
    veth_pair.check(call)
