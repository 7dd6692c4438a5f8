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
    """Check the call's port mappings.  Raises NetworkError."""
    for mapping in _mappings(call):
        _forward(mapping)


def add(call: PluginCall) -> dict[str, Any]:
    """Add rules that forward the call's ports to ``call.rules``; return the previous result.

    Raises NetworkError.
    """
    if not call.previous:
        raise NetworkError(f'network "{call.network}": portmap must follow another plugin')
    forwards = [_forward(forward) for forward in _mappings(call)]
    for family, address in zip((4, 6), addresses(call.previous), strict=True):
        fitting = tuple(
            forward for forward in forwards if not forward.host_ip or _family(forward) == family
        )
        if not address:
            _refuse_unreachable(call, fitting)
        elif fitting:
            _want(call, family, address, fitting)
    return in_version(call.previous, call.configuration["cniVersion"])


def _family(forward: Forward) -> int:
    return 6 if ":" in forward.host_ip else 4


def _refuse_unreachable(call: PluginCall, forwards: tuple[Forward, ...]) -> None:
    """Raise NetworkError if a mapping has a host address, whose IP family the pod lacks."""
    for forward in forwards:
        if forward.host_ip:
            raise NetworkError(
                f'network "{call.network}": forward port {forward.host_port}/{forward.protocol} '
                f"of {forward.host_ip}: the pod has no IPv{_family(forward)} address",
                f"use an IPv{10 - _family(forward)} address of the host, or leave it out",
            )


def _want(call: PluginCall, family: int, address: str, forwards: tuple[Forward, ...]) -> None:
    link = _link_to(address)
    name = tag(call.container, call.interface, PURPOSE)
    call.rules.append(Rules(name, family, address, forwards=forwards, link=link))


def _link_to(address: str) -> str:
    links = Rtnetlink()
    try:
        link = links.link_at(way_to(links, parse_address(address)))
    except OSError as error:
        raise NetworkError(f"find the route to {address}: {reason(error)}") from None
    finally:
        links.close()
    if link is None:
        raise NetworkError(f"find the route to the pod's address {address}: there is none")
    return link.name


def delete(call: PluginCall) -> None:
    """Delete conntrack entries of forwarded UDP ports; the caller removes the rules.

    A pod that was refused, because its ports are forwarded to another one, has no record.
    """
    if not pod_records.recorded(call.state_directory, call.container):
        return
    forwards = [_forward(one) for one in _mappings(call)]
    for family in firewall.families(call.previous):
        conntrack.forget(forwards, family)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return the (tag, family) of all packet filter rules that ``add`` can make."""
    name = tag(call.container, call.interface, PURPOSE)
    return [(name, one) for one in firewall.families(call.previous)] if _mappings(call) else []


def check(call: PluginCall) -> None:
    """Check that the pod's port forwarding rules exist.  Raises NetworkError."""
    if _mappings(call):
        name = tag(call.container, call.interface, PURPOSE)
        if not firewall.present(call.firewall, name, firewall.families(call.previous)[0]):
            raise NetworkError(
                f'network "{call.network}": the port forwarding rules of the pod are missing'
            )


def _mappings(call: PluginCall) -> list[dict[str, Any]]:
    found = (call.configuration.get("runtimeConfig") or {}).get("portMappings") or []
    return [one for one in found if one.get("hostPort")]


def _forward(mapping: dict[str, Any]) -> Forward:
    protocol = str(mapping.get("protocol") or "tcp").lower()
    if protocol not in PROTOCOLS:
        raise NetworkError(
            f'forward a port: unknown protocol "{protocol}" (one of {", ".join(PROTOCOLS)})'
        )
    host_ip = str(mapping.get("hostIP") or "")
    try:
        if host_ip:
            address = parse_address(host_ip)
            host_ip = str(address) if address.number else ""  # 0.0.0.0 and :: mean any
        ports = int(mapping["hostPort"]), int(mapping["containerPort"])
    except (KeyError, TypeError, ValueError) as error:
        raise NetworkError(f"forward a port: {error}") from None
    if not all(0 < port < 1 << 16 for port in ports):
        raise NetworkError(f"forward port {ports[0]} to {ports[1]}: not a valid port number")
    return Forward(protocol, host_ip, *ports)
