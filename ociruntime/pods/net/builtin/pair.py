"""A pair of devices between host and pod: what ``ptp`` and ``bridge`` have in common."""

from __future__ import annotations

import posix

from ociruntime.base.errors import NetworkError, RuntimeFailure, reason
from ociruntime.base.rtnetlink import IFF_UP, Rtnetlink
from ociruntime.pods.net import links as network_links
from ociruntime.pods.net.links import add_route, hardware_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ociruntime.base.rtnetlink import Link
    from ociruntime.pods.net.ipam import Addresses
    from ociruntime.pods.net.plugin_call import PluginCall

    Made = TypeVar("Made")

# Members of every configuration, and what is put in on the way.
COMMON = {"cniVersion", "name", "type", "args", "capabilities", "runtimeConfig", "prevResult"}
EEXIST = 17


def refuse_unknown(call: PluginCall, known: set[str]) -> None:
    """Raises NetworkError for settings that would be without effect."""
    unknown = sorted(call.configuration.keys() - known - COMMON)
    kind = call.configuration["type"]
    if unknown:
        raise NetworkError(
            f'network "{call.network}": the {kind} inside does not know "{unknown[0]}"',
            f"install the plugin {kind} by the CNI project",
        )
    mtu = call.configuration.get("mtu", 0)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not 0 <= mtu < 1 << 16:
        raise NetworkError(f'network "{call.network}": "mtu" is no number of bytes')
    for name in ("ipMasq", "isGateway", "isDefaultGateway", "hairpinMode"):
        if not isinstance(call.configuration.get(name, False), bool):
            raise NetworkError(f'network "{call.network}": "{name}" is neither true nor false')


def host_name(call: PluginCall) -> str:
    """The device on the host: ``veth`` and the pod's first digits, the interface's number."""
    number = call.interface.removeprefix("eth")
    return f"veth{call.container[:8]}-{number}"[: network_links.LONGEST_NAME]


def at_both_ends(
    call: PluginCall, name: str, work: Callable[[Rtnetlink, Rtnetlink, int], Made]
) -> Made:
    """What ``work`` makes of the host's links, the pod's, and the pod's namespace, a descriptor.

    Raises NetworkError, with the device ``name``, for its OSError.
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
            posix.close(namespace)
    except OSError as error:
        raise NetworkError(f'network "{call.network}": {name}: {reason(error)}') from None


def make(
    call: PluginCall, here: Rtnetlink, inside: Rtnetlink, namespace: int, name: str
) -> tuple[Link, Link]:
    """(host's, pod's).  Raises OSError."""
    mtu = call.configuration.get("mtu", 0)
    if inside.link(call.interface) is not None:
        raise OSError(EEXIST, f"{call.interface} is in the pod already")
    host = network_links.make_veth(here, name, namespace, call.interface, mtu)
    return host, network_links.find(inside, call.interface)


def add_routes(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    """The routes that were assigned; without a gateway by that of the family.  Raises OSError."""
    for target, gateway in addresses.routes:
        usual = [one.gateway for one in addresses.assigned if one.network.family == target.family]
        add_route(links, target, index, gateway or (usual[0] if usual else None))


def result(call: PluginCall, ends: tuple[Link, ...], addresses: Addresses) -> dict[str, Any]:
    """``ends``: devices on the host, then the pod's."""
    from ociruntime.pods.net.result import in_version

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
    """Raises NetworkError."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        network_links.remove(links, name)
    except OSError as error:
        raise NetworkError(f"remove {name}: {reason(error)}") from None
    finally:
        links.close()


def check(call: PluginCall) -> None:
    """The host's device is there and up.  Raises NetworkError."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        found = links.link(name)
    except OSError as error:
        raise NetworkError(f"look at {name}: {reason(error)}") from None
    finally:
        links.close()
    if found is None or not found.flags & IFF_UP:
        raise NetworkError(f'network "{call.network}": {name} is {"down" if found else "gone"}')


def undo(steps: list[Callable[[], None]]) -> None:
    """All of them, whatever becomes of each.  Raises NetworkError with what went wrong."""
    problems = []
    for step in steps:
        try:
            step()
        except RuntimeFailure as failure:
            problems.append(str(failure))
    if problems:
        raise NetworkError("; ".join(problems))
