"""The plugin ``bridge``: connects each pod to a bridge on the host with a veth pair.

When the last pod leaves a bridge that the plugin has created, the plugin removes the bridge.

It has two settings that CNI's plugin of the same name lacks.  With ``isolated``, other networks can
reach only the forwarded ports of the bridge's pods.  With ``internal`` as well, these pods cannot
reach other networks either.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from ociruntime.base.errors import HostError, NetworkError, reason
from ociruntime.base.fault_injection import fault
from ociruntime.base.rtnetlink import Link, Rtnetlink
from ociruntime.base.trusted_directories import make_directory
from ociruntime.pods.net import ipam
from ociruntime.pods.net.addresses import Address, Network, parse_network
from ociruntime.pods.net.builtin import veth_pair
from ociruntime.pods.net.ipam import Addresses
from ociruntime.pods.net.links import (
    FORWARDING,
    LONGEST_NAME,
    bridge_facts,
    find,
    give_address,
    join_bridge,
    make_bridge,
    remove,
    set_sysctl,
)
from ociruntime.pods.net.plugin_parameters import PluginCall

KNOWN = {
    "bridge",
    "isGateway",
    "isDefaultGateway",
    "forceAddress",
    "ipMasq",
    "mtu",
    "hairpinMode",
    "ipam",
    "dns",
    "isolated",
    "internal",
}
DEFAULT_NAME = "cni0"
ALIAS = "made by ociruntime"
LOCK = ".bridges"
AF_INET = 2
EVERYWHERE = {AF_INET: "0.0.0.0/0", 10: "::/0"}


def validate(call: PluginCall) -> None:
    """Check the configuration of a ``bridge`` network; raise NetworkError if it is invalid."""
    veth_pair.refuse_unknown(call, KNOWN)
    _name(call)
    ipam.validate(call)


def add(call: PluginCall) -> dict[str, Any]:
    """Connect a pod to the bridge; return the CNI result.

    If this raises NetworkError, the caller must call ``delete`` to clean up.
    """
    name = _name(call)
    addresses = ipam.assign(call)
    fault("network.after-address")
    _complete(call, addresses)

    def make(here: Rtnetlink, inside: Rtnetlink, namespace: int) -> tuple[Link, Link, Link]:
        ends = _plug_in(call, here, inside, namespace, name)
        _configure_inside(inside, ends[1].index, addresses)
        return (_configure_here(call, here, name, addresses), *ends)

    lock = _lock(call)
    try:
        links = veth_pair.at_both_ends(call, name, make)
    finally:
        os.close(lock)
    fault("network.after-links")
    veth_pair.add_rules(call, [one.network for one in addresses.assigned], name)
    return veth_pair.result(call, links, addresses)


def _complete(call: PluginCall, addresses: Addresses) -> None:
    """Complete ``addresses`` so that the bridge becomes the pod's gateway, if this is configured.

    With ``isGateway`` or ``isDefaultGateway`` in the configuration, each address without a gateway
    gets the first host address of its subnet as the gateway.  With ``isDefaultGateway``, the
    default route is added if it is missing.
    """
    settings = call.configuration
    if not (settings.get("isGateway") or settings.get("isDefaultGateway")):
        return
    targets = {str(target) for target, _ in addresses.routes}
    for one in addresses.assigned:
        if one.gateway is None:
            one.gateway = one.network.first.offset(1)
        everywhere = EVERYWHERE[one.network.family]
        if settings.get("isDefaultGateway") and everywhere not in targets:
            addresses.routes.append((parse_network(everywhere), one.gateway))
            targets.add(everywhere)


def _plug_in(
    call: PluginCall, here: Rtnetlink, inside: Rtnetlink, namespace: int, name: str
) -> tuple[Link, Link]:
    make_bridge(here, name, call.configuration.get("mtu", 0), ALIAS)
    kind, _, _ = bridge_facts(here, name)
    if kind != "bridge":
        raise NetworkError(
            f'network "{call.network}": use bridge "{name}": the interface is not a bridge'
        )
    ends = veth_pair.make(call, here, inside, namespace, veth_pair.host_name(call))
    hairpin = bool(call.configuration.get("hairpinMode"))
    join_bridge(here, ends[0].index, find(here, name).index, hairpin)
    here.set_up(ends[0].index)
    return ends


def _configure_inside(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    links.set_up(index)
    for one in addresses.assigned:
        give_address(links, index, one.network)
    veth_pair.add_routes(links, index, addresses)


def _configure_here(call: PluginCall, links: Rtnetlink, name: str, addresses: Addresses) -> Link:
    settings = call.configuration
    bridge = find(links, name)
    if settings.get("isGateway") or settings.get("isDefaultGateway"):
        for one in addresses.assigned:
            if one.gateway is not None:
                give_address(links, bridge.index, _in_subnet(one.gateway, one.network))
            set_sysctl(FORWARDING[4 if one.network.family == AF_INET else 6], "1")
    return find(links, name)  # again, because it now has the MAC address of a port


def _in_subnet(address: Address, network: Network) -> Network:
    return Network(address, network.prefix)


def delete(call: PluginCall) -> None:
    """Undo ``add``: remove the pod's veth pair, and release its addresses.

    Attempts both steps, even if the first fails.  Raises NetworkError with all error messages if a
    step fails.
    """
    veth_pair.undo(
        [
            lambda: _unplug(call),
            lambda: ipam.release(call),
        ]
    )


def _unplug(call: PluginCall) -> None:
    name = _name(call)
    lock = _lock(call)
    links = Rtnetlink()
    try:
        remove(links, veth_pair.host_name(call))
        if bridge_facts(links, name) == ("bridge", ALIAS, 0):
            remove(links, name)
    except OSError as error:
        raise NetworkError(
            f'network "{call.network}": remove the pod from bridge "{name}": {reason(error)}'
        ) from None
    finally:
        links.close()
        os.close(lock)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return (tag, IP family 4 or 6) of each packet filter ruleset that ``add`` can create."""
    return veth_pair.tags(call)


def check(call: PluginCall) -> None:
    """Check that the pod has its addresses and its veth pair, and that the bridge has ports.

    Raises NetworkError if one of these is missing.
    """
    ipam.check(call)
    veth_pair.check(call)
    links = Rtnetlink()
    try:
        kind, _, ports = bridge_facts(links, _name(call))
    except OSError as error:
        raise NetworkError(
            f'network "{call.network}": inspect bridge "{_name(call)}": {reason(error)}'
        ) from None
    finally:
        links.close()
    if kind != "bridge" or not ports:
        raise NetworkError(
            f'network "{call.network}": bridge "{_name(call)}" is missing or has no ports'
        )


def _name(call: PluginCall) -> str:
    name = call.configuration.get("bridge", DEFAULT_NAME)
    good = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isascii()
    if not good or not name.isprintable() or set(name) & set('/ "') or name in (".", ".."):
        raise NetworkError(f'network "{call.network}": "bridge" must be a valid interface name')
    return str(name)


def _lock(call: PluginCall) -> int:
    """Wait for and take the lock shared by all bridges; return the descriptor that holds it.

    Without the lock, another process could remove a new bridge before the pod is connected to it.
    """
    path = f"{call.state_directory}/{LOCK}"
    try:
        make_directory(call.state_directory, 0o750, "network directory")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
    except HostError as failure:
        raise NetworkError(failure.message, failure.hint) from None
    except OSError as error:
        raise NetworkError(f'lock the file "{path}": {reason(error)}') from None
    return fd
