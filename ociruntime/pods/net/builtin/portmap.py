"""The plugin ``portmap``: forward host ports to the pod, also from the host's loopback."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.rtnetlink import Rtnetlink
from ociruntime.pods.net import conntrack, firewall, pod_records
from ociruntime.pods.net.addresses import parse_address
from ociruntime.pods.net.links import way_to
from ociruntime.pods.net.plugin_call import PluginCall, addresses, in_version
from ociruntime.pods.net.rules import Forward, Rules, tag

PURPOSE = "fwd"
PROTOCOLS = ("tcp", "udp", "sctp")


def validate(call: PluginCall) -> None:
    """Check the port mappings.  Raises NetworkError."""
    for mapping in _mappings(call):
        _forward(mapping)


def add(call: PluginCall) -> dict[str, Any]:
    """Add the forwarding rules to those of the call.  Raises NetworkError."""
    if not call.previous:
        raise NetworkError(f'network "{call.network}": portmap must follow another plugin')
    forwards = [_forward(one) for one in _mappings(call)]
    for family, address in zip((4, 6), addresses(call.previous), strict=True):
        fitting = tuple(one for one in forwards if not one.host_ip or _family(one) == family)
        if not address:
            _refuse_unreachable(call, fitting)
        elif fitting:
            _want(call, family, address, fitting)
    return in_version(call.previous, call.configuration["cniVersion"])


def _family(forward: Forward) -> int:
    return 6 if ":" in forward.host_ip else 4


def _refuse_unreachable(call: PluginCall, forwards: tuple[Forward, ...]) -> None:
    """Check that the pod has an address of each mapping's family.  Raises NetworkError."""
    for one in forwards:
        if one.host_ip:
            raise NetworkError(
                f'network "{call.network}": {one.host_ip}, port {one.host_port}/{one.protocol} '
                f"of the host: the pod has no IPv{_family(one)} address",
                f"use an IPv{10 - _family(one)} address of the host, or leave it out",
            )


def _want(call: PluginCall, family: int, address: str, forwards: tuple[Forward, ...]) -> None:
    link = _link_to(address)
    name = tag(call.container, call.interface, PURPOSE)
    call.rules.append(Rules(name, family, address, forwards=forwards, link=link))


def _link_to(address: str) -> str:
    links = Rtnetlink()
    try:
        found = links.link_at(way_to(links, parse_address(address)))
    except OSError as error:
        raise NetworkError(f"find the route to {address}: {reason(error)}") from None
    finally:
        links.close()
    if found is None:
        raise NetworkError(f"no route to {address}")
    return found.name


def delete(call: PluginCall) -> None:
    """Forget UDP flows; the rules are removed together with all others of the pod.

    A pod that was refused, because its ports are forwarded to another one, has no record.
    """
    if not pod_records.recorded(call.state_directory, call.container):
        return
    forwards = [_forward(one) for one in _mappings(call)]
    for family in firewall.families(call.previous):
        conntrack.forget(forwards, family)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return the (tag, family) of all rules that ``add`` can make."""
    name = tag(call.container, call.interface, PURPOSE)
    return [(name, one) for one in firewall.families(call.previous)] if _mappings(call) else []


def check(call: PluginCall) -> None:
    """Check that the forwarding rules exist.  Raises NetworkError."""
    if _mappings(call):
        name = tag(call.container, call.interface, PURPOSE)
        if not firewall.present(call.firewall, name, firewall.families(call.previous)[0]):
            raise NetworkError(f'network "{call.network}": the rules for its ports are missing')


def _mappings(call: PluginCall) -> list[dict[str, Any]]:
    found = (call.configuration.get("runtimeConfig") or {}).get("portMappings") or []
    return [one for one in found if one.get("hostPort")]


def _forward(mapping: dict[str, Any]) -> Forward:
    protocol = str(mapping.get("protocol") or "tcp").lower()
    if protocol not in PROTOCOLS:
        raise NetworkError(f'port: unknown protocol "{protocol}" (one of {", ".join(PROTOCOLS)})')
    host_ip = str(mapping.get("hostIP") or "")
    try:
        if host_ip:
            address = parse_address(host_ip)
            host_ip = str(address) if address.number else ""  # 0.0.0.0 and :: mean any
        ports = int(mapping["hostPort"]), int(mapping["containerPort"])
    except (KeyError, TypeError, ValueError) as error:
        raise NetworkError(f"port: {error}") from None
    if not all(0 < port < 1 << 16 for port in ports):
        raise NetworkError(f"port: {ports[0]} or {ports[1]} is not a valid port number")
    return Forward(protocol, host_ip, *ports)
