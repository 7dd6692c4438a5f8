"""The veth pair between host and pod: common parts of ``ptp`` and ``bridge``."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EEXIST
from typing import Any, TypeVar

from ociruntime.base.errors import NetworkError, RuntimeFailure, reason
from ociruntime.base.rtnetlink import IFF_UP, Link, Rtnetlink
from ociruntime.pods.net import firewall
from ociruntime.pods.net import links as network_links
from ociruntime.pods.net.addresses import Network
from ociruntime.pods.net.ipam import Addresses
from ociruntime.pods.net.links import add_route, hardware_text
from ociruntime.pods.net.plugin_call import PluginCall
from ociruntime.pods.net.rules import DIGITS, Rules, tag

Made = TypeVar("Made")


# Members that every configuration has, and those that CNI's runtime adds.
COMMON = {"cniVersion", "name", "type", "args", "capabilities", "runtimeConfig", "prevResult"}


def refuse_unknown(call: PluginCall, known: set[str]) -> None:
    """Raise NetworkError for a setting that a built-in plugin does not support."""
    unknown = sorted(call.configuration.keys() - known - COMMON)
    kind = call.configuration["type"]
    if unknown:
        raise NetworkError(
            f'network "{call.network}": the built-in plugin {kind} does not support "{unknown[0]}"',
            f"install CNI's plugin {kind}",
        )
    mtu = call.configuration.get("mtu", 0)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not 0 <= mtu < 1 << 16:
        raise NetworkError(f'network "{call.network}": "mtu" must be a number of bytes')
    for name in ("ipMasq", "isGateway", "isDefaultGateway", "hairpinMode", "isolated", "internal"):
        if not isinstance(call.configuration.get(name, False), bool):
            raise NetworkError(f'network "{call.network}": "{name}" must be true or false')


def host_name(call: PluginCall) -> str:
    """Return the name of the pair's host end: ``vethXXXXXXXX-N`` (pod's UUID, interface number).

    ``pod_records.note`` refuses a pod whose UUID has the same first 8 digits as another's.
    """
    number = call.interface.removeprefix("eth")
    return f"veth{call.container[:DIGITS]}-{number}"[: network_links.LONGEST_NAME]


def at_both_ends(
    call: PluginCall, name: str, work: Callable[[Rtnetlink, Rtnetlink, int], Made]
) -> Made:
    """Call ``work`` with netlink sockets of host and pod, and the pod's network namespace.

    Returns the result of ``work``.  Converts an OSError to a NetworkError about interface ``name``.
    """
    try:
        namespace = network_links.open_namespace(call.namespace)
        try:
            here = Rtnetlink()
            try:
                inside = network_links.links_inside(namespace, call.namespace)
                try:
                    return work(here, inside, namespace)
                finally:
                    inside.close()
            finally:
                here.close()
        finally:
            os.close(namespace)
    except OSError as error:
        raise NetworkError(f'network "{call.network}": {name}: {reason(error)}') from None


def make(
    call: PluginCall, here: Rtnetlink, inside: Rtnetlink, namespace: int, name: str
) -> tuple[Link, Link]:
    """Create the veth pair; return (link on the host, link in the pod).  Raises OSError."""
    mtu = call.configuration.get("mtu", 0)
    if inside.link(call.interface) is not None:
        raise OSError(EEXIST, f"the pod already has an interface {call.interface}")
    host = network_links.make_veth(here, name, namespace, call.interface, mtu)
    return host, network_links.find(inside, call.interface)


def add_routes(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    """Add the assigned routes; one without a gateway uses its family's.  Raises OSError."""
    for target, gateway in addresses.routes:
        usual = [one.gateway for one in addresses.assigned if one.network.family == target.family]
        add_route(links, target, index, gateway or (usual[0] if usual else None))


def result(call: PluginCall, ends: tuple[Link, ...], addresses: Addresses) -> dict[str, Any]:
    """Return the CNI result of ADD; ``ends`` are the links on the host, then the pod's link."""
    from ociruntime.pods.net.plugin_call import in_version

    devices: list[dict[str, Any]] = [
        {"name": link.name, "mac": hardware_text(link)} for link in ends
    ]
    devices[-1]["sandbox"] = call.namespace
    ips = []
    for one in addresses.assigned:
        ip = {"interface": len(devices) - 1, "address": str(one.network)}
        if one.gateway is not None:
            ip["gateway"] = str(one.gateway)
        ips.append(ip)
    routes = []
    for target, gateway in addresses.routes:
        routes.append({"dst": str(target), **({"gw": str(gateway)} if gateway else {})})
    dns = call.configuration.get("dns") or addresses.dns
    made = {"interfaces": devices, "ips": ips, "dns": dns}
    if routes:
        made["routes"] = routes
    return in_version(made, call.configuration["cniVersion"])


def remove(call: PluginCall) -> None:
    """Remove the call's veth pair, if it exists.  Raises NetworkError."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        network_links.remove(links, name)
    except OSError as error:
        raise NetworkError(f"remove {name}: {reason(error)}") from None
    finally:
        links.close()


def check(call: PluginCall) -> None:
    """Check that the veth pair's host end exists and is up.  Raises NetworkError."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        found = links.link(name)
    except OSError as error:
        raise NetworkError(f"inspect {name}: {reason(error)}") from None
    finally:
        links.close()
    if found is None or not found.flags & IFF_UP:
        raise NetworkError(f'network "{call.network}": {name} is {"down" if found else "missing"}')


def undo(steps: list[Callable[[], None]]) -> None:
    """Call all ``steps``, even after a failure.  Raises one NetworkError with all messages."""
    problems = []
    for step in steps:
        try:
            step()
        except RuntimeFailure as failure:
            problems.append(str(failure))
    if problems:
        raise NetworkError("; ".join(problems))


PURPOSE = "nat"
AF_INET = 2


def want(call: PluginCall, networks: list[Network], bridge: str = "") -> None:
    """Add the packet filter rules that masquerade and isolate the pod to ``call.rules``.

    A network is isolated in both families: a pod can use IPv6 without an address from us.
    """
    settings = call.configuration
    name = tag(call.container, call.interface, PURPOSE)
    isolated = bool(settings.get("isolated"))
    wanted = [
        (
            4 if network.family == AF_INET else 6,
            str(network.address),
            str(network.subnet) if settings.get("ipMasq") else "",
        )
        for network in (networks if _wants(call) else ())
    ]
    if isolated:
        known = {family for family, _, _ in wanted}
        others = [one for one in firewall.usable_families(call.firewall) if one not in known]
        wanted += [(family, "", "") for family in others]
    for family, address, masquerade in wanted:
        rules = Rules(
            name,
            family,
            address,
            masquerade,
            bridge=bridge if isolated else "",
            internal=bool(settings.get("internal")),
        )
        call.rules.append(rules)


def _wants(call: PluginCall) -> bool:
    return bool(call.configuration.get("ipMasq") or call.configuration.get("isolated"))


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return the (tag, family) of all packet filter rules that ``want`` can add."""
    if not _wants(call):
        return []
    name = tag(call.container, call.interface, PURPOSE)
    families = set(firewall.families(call.previous))
    if call.configuration.get("isolated"):
        families |= set(firewall.usable_families(call.firewall))
    return [(name, family) for family in sorted(families)]
