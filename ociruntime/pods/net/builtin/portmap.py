"""The plugin ``portmap``, which forwards host ports, including those of 127.0.0.1, to a pod."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.rtnetlink import Rtnetlink
from ociruntime.pods.net import conntrack, firewall, pod_records
from ociruntime.pods.net.addresses import parse_address
from ociruntime.pods.net.firewall_rules import Forward, Rules, tag
from ociruntime.pods.net.links import link_of_route
from ociruntime.pods.net.plugin_parameters import PluginCall, addresses, in_version

PURPOSE = "fwd"
PROTOCOLS = ("tcp", "udp", "sctp")


def validate(call: PluginCall) -> None:
    """Check the port mappings in the configuration.  Raises NetworkError if one is invalid."""
    for mapping in _mappings(call):
        _forward(mapping)


def add(call: PluginCall) -> dict[str, Any]:
    """Add packet filter rules to ``call.rules`` that forward host ports to the pod.

    Returns the CNI result of the previous plugin in the chain.  Raises NetworkError if there is no
    previous plugin or a port mapping is invalid.  Raises NetworkError if a mapping has a host
    address, but the pod has no address of the same IP family.
    """
    if not call.previous:
        raise NetworkError(
            f'network "{call.network}": the plugin "portmap" must follow another plugin'
        )
    for family, address, fitting in _forwards(call):
        if not address:
            _refuse_unreachable(call, fitting)
        elif fitting:
            _add_rules(call, family, address, fitting)
    return in_version(call.previous, call.configuration["cniVersion"])


def _forwards(call: PluginCall) -> list[tuple[int, str, tuple[Forward, ...]]]:
    """Return (IP family 4 or 6, the pod's address, the forwarded ports) for both families.

    The address is "" if the pod has no address of the family.  The ports of both families include
    those without a host address.  Raises NetworkError if a mapping is invalid.
    """
    forwards = [_forward(mapping) for mapping in _mappings(call)]
    return [
        (family, address, tuple(one for one in forwards if _family(one) in (0, family)))
        for family, address in zip((4, 6), addresses(call.previous), strict=True)
    ]


def _family(forward: Forward) -> int:
    """Return the IP family of a forward's host address, or 0 if it has no host address."""
    if not forward.host_ip:
        return 0
    return 6 if ":" in forward.host_ip else 4


def _refuse_unreachable(call: PluginCall, forwards: tuple[Forward, ...]) -> None:
    """Raise NetworkError if one of ``forwards`` has a host address.

    The caller passes the ports of an IP family in which the pod has no address.  A port of a host
    address of this family cannot be forwarded to the pod.
    """
    for forward in forwards:
        if forward.host_ip:
            raise NetworkError(
                f'network "{call.network}": forward port {forward.host_port}/{forward.protocol} '
                f"of {forward.host_ip}: the pod has no IPv{_family(forward)} address",
                f"use an IPv{10 - _family(forward)} address of the host, or leave the address out",
            )


def _add_rules(call: PluginCall, family: int, address: str, forwards: tuple[Forward, ...]) -> None:
    link = _link_to(address)
    name = tag(call.container, call.interface, PURPOSE)
    call.rules.append(Rules(name, family, address, forwards=forwards, link=link))


def _link_to(address: str) -> str:
    links = Rtnetlink()
    try:
        link = links.link_at(link_of_route(links, parse_address(address)))
    except OSError as error:
        raise NetworkError(
            f"forward ports: find a route to the pod's address {address}: {reason(error)}"
        ) from None
    finally:
        links.close()
    if link is None:
        raise NetworkError(f"forward ports: find a route to the pod's address {address}: not found")
    return link.name


def delete(call: PluginCall) -> None:
    """Delete the conntrack entries of the pod's forwarded UDP ports; the caller removes the rules.

    Does nothing for a pod without a network record: it was never connected, and the entries for its
    ports may belong to another pod.
    """
    if not pod_records.has_record(call.state_directory, call.container):
        return
    forwards = [_forward(one) for one in _mappings(call)]
    for family in firewall.families(call.previous):
        conntrack.forget(forwards, family)


def tags(call: PluginCall) -> list[tuple[str, int]]:
    """Return (tag, IP family 4 or 6) of each packet filter ruleset that ``add`` can create."""
    name = tag(call.container, call.interface, PURPOSE)
    return [(name, one) for one in firewall.families(call.previous)] if _mappings(call) else []


def check(call: PluginCall) -> None:
    """Check that the pod's port forwarding rules exist; raise NetworkError if they are missing."""
    name = tag(call.container, call.interface, PURPOSE)
    for family, address, fitting in _forwards(call):
        if address and fitting and not firewall.present(call.firewall, name, family):
            raise NetworkError(
                f'network "{call.network}": the IPv{family} rules that forward the pod\'s ports '
                "are missing"
            )


def _mappings(call: PluginCall) -> list[dict[str, Any]]:
    mappings = (call.configuration.get("runtimeConfig") or {}).get("portMappings") or []
    return [one for one in mappings if one.get("hostPort")]


def _forward(mapping: dict[str, Any]) -> Forward:
    protocol = str(mapping.get("protocol") or "tcp").lower()
    if protocol not in PROTOCOLS:
        raise NetworkError(
            f'forward a port: unknown protocol "{protocol}"',
            f"supported: {', '.join(PROTOCOLS)}",
        )
    host_ip = str(mapping.get("hostIP") or "")
    try:
        if host_ip:
            address = parse_address(host_ip)
            host_ip = str(address) if address.number else ""  # 0.0.0.0 and :: mean any
        ports = int(mapping["hostPort"]), int(mapping["containerPort"])
    except (KeyError, TypeError, ValueError) as error:
        raise NetworkError(f"forward a port: invalid port mapping: {error}") from None
    if not all(0 < port < 1 << 16 for port in ports):
        raise NetworkError(
            f"forward host port {ports[0]} to port {ports[1]}: port numbers must be 1 to 65535"
        )
    return Forward(protocol, host_ip, *ports)
