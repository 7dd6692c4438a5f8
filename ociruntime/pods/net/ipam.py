"""Assign and release a pod's addresses with the IPAM plugin of its network configuration."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import NetworkError
from ociruntime.pods.net import call_plugins
from ociruntime.pods.net.addresses import Address, Network, parse_address, parse_network
from ociruntime.pods.net.plugin_parameters import PluginCall


class Assigned:
    """An address assigned to a pod.

    ``network`` is the address with its prefix length; ``gateway`` is the gateway's address, or
    None.
    """

    __slots__ = ("gateway", "network")

    def __init__(self, network: Network, gateway: Address | None) -> None:
        self.network = network
        self.gateway = gateway


class Addresses:
    """The result of an IPAM plugin.

    ``assigned`` lists the addresses, ``routes`` lists pairs (target, gateway or None), and ``dns``
    is the object ``dns`` of a CNI result.
    """

    __slots__ = ("assigned", "dns", "routes")

    def __init__(
        self,
        assigned: list[Assigned],
        routes: list[tuple[Network, Address | None]],
        dns: dict[str, Any],
    ) -> None:
        self.assigned = assigned
        self.routes = routes
        self.dns = dns


def validate(call: PluginCall) -> None:
    """Check the member ``ipam`` of a network configuration.

    Raises NetworkError if it is invalid or its plugin is not found.
    """
    if _program(call) is None:
        from ociruntime.pods.net.builtin.host_local import ranges_of

        ranges_of(call.configuration["ipam"], call.network)


def assign(call: PluginCall) -> Addresses:
    """Call ADD of the IPAM plugin; return the assigned addresses.

    Raises NetworkError if the plugin fails or its result is invalid.
    """
    program = _program(call)
    result = _host_local(call, "add") if program is None else call_plugins.add(program, call)
    try:
        return read(result, call.network)
    except BaseException:
        release(call)
        raise


def read(result: dict[str, Any], network: str) -> Addresses:
    """Parse the JSON result of the IPAM plugin of ``network``.

    Raises NetworkError if the result is malformed or has no address.
    """
    try:
        assigned = [
            Assigned(
                parse_network(ip["address"]),
                parse_address(ip["gateway"]) if ip.get("gateway") else None,
            )
            for ip in result.get("ips") or ()
        ]
        routes = [
            (
                parse_network(route["dst"]),
                parse_address(route["gw"]) if route.get("gw") else None,
            )
            for route in result.get("routes") or ()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise NetworkError(
            f'network "{network}": read the result of the IPAM plugin: {reason}'
        ) from None
    if not assigned:
        raise NetworkError(
            f'network "{network}": read the result of the IPAM plugin: it has no address'
        )
    return Addresses(assigned, routes, result.get("dns") or {})


def release(call: PluginCall) -> None:
    """Release the pod's addresses by calling DEL of the IPAM plugin.

    Raises NetworkError if the plugin fails.
    """
    program = _program(call)
    if program is None:
        _host_local(call, "delete")
    else:
        call_plugins.delete(program, call)


def check(call: PluginCall) -> None:
    """Check that the pod's addresses are still assigned, by calling CHECK of the IPAM plugin.

    Raises NetworkError if they are not.
    """
    program = _program(call)
    if program is None:
        _host_local(call, "check")
    else:
        call_plugins.check(program, call)


def _program(call: PluginCall) -> str | None:
    """Return the path of the IPAM plugin, or None for the built-in plugin ``host-local``.

    Raises NetworkError if the plugin is not found.
    """
    ipam = call.configuration.get("ipam")
    kind = ipam.get("type") if isinstance(ipam, dict) else None
    if not isinstance(kind, str) or not kind:
        raise NetworkError(f'network "{call.network}": "ipam.type" must be the name of a plugin')
    if kind == "host-local" and not call.programs:
        return None
    program = call_plugins.find_plugin(kind, call.directories)
    if not program and kind != "host-local":
        raise NetworkError(f'network "{call.network}": "{kind}" is not an IPAM plugin')
    return program or None


def _host_local(call: PluginCall, operation: str) -> dict[str, Any]:
    from ociruntime.pods.net.builtin import host_local

    if operation == "add":
        return host_local.add(call)
    (host_local.delete if operation == "delete" else host_local.check)(call)
    return {}
