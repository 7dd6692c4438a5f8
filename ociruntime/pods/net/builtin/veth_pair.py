"""Create, check and remove the veth pair between host and pod, for ``ptp`` and ``bridge``."""

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
from ociruntime.pods.net.firewall_rules import DIGITS, Rules, tag
from ociruntime.pods.net.ipam import Addresses
from ociruntime.pods.net.links import add_route, hardware_text
from ociruntime.pods.net.plugin_parameters import PluginCall

Made = TypeVar("Made")


# Members that every configuration has, and those that CNI's runtime adds.
COMMON = {"cniVersion", "name", "type", "args", "capabilities", "runtimeConfig", "prevResult"}


def refuse_unknown(call: PluginCall, known: set[str]) -> None:
    """Check that the configuration has only the members ``known``, with values of the right type.

    Raises NetworkError for a member that the built-in plugin does not support, or an invalid
    value.
    """
    unknown = sorted(call.configuration.keys() - known - COMMON)
    kind = call.configuration["type"]
    if unknown:
        raise NetworkError(
            f'network "{call.network}": the built-in plugin "{kind}" does not support '
            f'"{unknown[0]}"',
            f'install the CNI plugin "{kind}"',
        )
    mtu = call.configuration.get("mtu", 0)
    if isinstance(mtu, bool) or not isinstance(mtu, int) or not 0 <= mtu < 1 << 16:
        raise NetworkError(f'network "{call.network}": "mtu" must be a number of bytes, 0 to 65535')
    for name in ("ipMasq", "isGateway", "isDefaultGateway", "hairpinMode", "isolated", "internal"):
        if not isinstance(call.configuration.get(name, False), bool):
            raise NetworkError(f'network "{call.network}": "{name}" must be true or false')


def host_name(call: PluginCall) -> str:
    """Return the name of the veth pair's host end: ``vethXXXXXXXX-N``.

    XXXXXXXX are the first 8 digits of the pod's UUID, which are unique among pods with networks.
    N is the number in the name of the pod's interface, such as 0 for eth0.
    """
    number = call.interface.removeprefix("eth")
    return f"veth{call.container[:DIGITS]}-{number}"[: network_links.LONGEST_NAME]


def at_both_ends(
    call: PluginCall, name: str, work: Callable[[Rtnetlink, Rtnetlink, int], Made]
) -> Made:
    """Call ``work(host, pod, namespace)`` and return its result.

    ``host`` and ``pod`` are netlink sockets on the host and in the pod, ``namespace`` is a
    descriptor of the pod's network namespace.  ``name`` is the name of an interface.  An OSError
    raised by ``work`` becomes a NetworkError, whose message contains ``name``.
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
        raise NetworkError(
            f'network "{call.network}": create interface "{name}": {reason(error)}'
        ) from None


def make(
    call: PluginCall, here: Rtnetlink, inside: Rtnetlink, namespace: int, name: str
) -> tuple[Link, Link]:
    """Create a veth pair with the ends ``name`` on the host and ``call.interface`` in the pod.

    ``here`` and ``inside`` are netlink sockets on the host and in the pod, ``namespace`` is a
    descriptor of the pod's network namespace.  Returns (end on the host, end in the pod).  Raises
    OSError if the kernel refuses a request.
    """
    mtu = call.configuration.get("mtu", 0)
    if inside.link(call.interface) is not None:
        raise OSError(EEXIST, f'the pod already has an interface "{call.interface}"')
    host = network_links.make_veth(here, name, namespace, call.interface, mtu)
    return host, network_links.find(inside, call.interface)


def add_routes(links: Rtnetlink, index: int, addresses: Addresses) -> None:
    """Add the routes in ``addresses`` to the interface with the given ``index``.

    A route without a gateway gets the gateway of the first address of its IP family.  Raises
    OSError if the kernel refuses a route.
    """
    for target, gateway in addresses.routes:
        usual = [one.gateway for one in addresses.assigned if one.network.family == target.family]
        add_route(links, target, index, gateway or (usual[0] if usual else None))


def result(call: PluginCall, ends: tuple[Link, ...], addresses: Addresses) -> dict[str, Any]:
    """Return the CNI result of ADD.

    ``ends`` are the interfaces on the host, followed by the pod's interface.
    """
    from ociruntime.pods.net.plugin_parameters import in_version

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
    """Remove the pod's veth pair, if it exists; raise NetworkError if this fails."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        network_links.remove(links, name)
    except OSError as error:
        raise NetworkError(
            f'network "{call.network}": remove interface "{name}": {reason(error)}'
        ) from None
    finally:
        links.close()


def check(call: PluginCall) -> None:
    """Check that the host end of the pod's veth pair is up; if not, raise NetworkError."""
    name = host_name(call)
    links = Rtnetlink()
    try:
        link = links.link(name)
    except OSError as error:
        raise NetworkError(
            f'network "{call.network}": inspect interface "{name}": {reason(error)}'
        ) from None
    finally:
        links.close()
    if link is None or not link.flags & IFF_UP:
        state = "down" if link else "missing"
        raise NetworkError(f'network "{call.network}": interface "{name}" is {state}')


def undo(steps: list[Callable[[], None]]) -> None:
    """Call each function in ``steps``, even if an earlier one fails.

    After the last call, raises a NetworkError with all error messages, if there are any.
    """
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


def add_rules(call: PluginCall, networks: list[Network], bridge: str = "") -> None:
    """Add to ``call.rules`` the masquerading and isolation rules that the configuration requests.

    ``networks`` are the pod's addresses, ``bridge`` is the host's bridge of an isolated network.
    Isolation covers both IP families even if the pod has only IPv4 addresses, because a pod can use
    an IPv6 address that was not assigned to it.
    """
    settings = call.configuration
    name = tag(call.container, call.interface, PURPOSE)
    isolated = bool(settings.get("isolated"))
    rulesets = [
        (
            4 if network.family == AF_INET else 6,
            str(network.address),
            str(network.subnet) if settings.get("ipMasq") else "",
        )
        for network in (networks if _needs_rules(call) else ())
    ]
    if isolated:
        known = {family for family, _, _ in rulesets}
        others = [one for one in firewall.usable_families(call.firewall) if one not in known]
        rulesets += [(family, "", "") for family in others]
    for family, address, masquerade in rulesets:
        rules = Rules(
            name,
            family,
            address,
            masquerade,
            bridge=bridge if isolated else "",
            internal=bool(settings.get("internal")),
        )
        call.rules.append(rules)


def _needs_rules(call: PluginCall) -> bool:
    return bool(call.configuration.get("ipMasq") or call.configuration.get("isolated"))


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return (tag, IP family 4 or 6) of each ruleset that ``add_rules`` may have added."""
    if not _needs_rules(call):
        return []
    name = tag(call.container, call.interface, PURPOSE)
    families = set(firewall.families(call.previous))
    if call.configuration.get("isolated"):
        families |= set(firewall.usable_families(call.firewall))
    return [(name, family) for family in sorted(families)]
