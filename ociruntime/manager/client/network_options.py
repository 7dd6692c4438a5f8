"""The options of ``run`` and ``create`` for networks, published ports, DNS and /etc/hosts."""

from __future__ import annotations

from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError, reason
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments

Spec: TypeAlias = dict[str, Any]

NETWORK_OPTIONS = (
    Option(
        "publish",
        "publish a port to the host",
        "[[IP:]PORT:]PORT",
        kind="list",
        short="p",
        details=(
            "The first PORT is the host's (default: a free port), the last PORT the container's. "
            "Ranges are possible: 8000-8009:80-89."
        ),
    ),
    Option(
        "publish-all",
        "publish all ports that the image exposes",
        short="P",
        details="Free ports of the host are selected when the container is created.",
    ),
    Option(
        "network",
        "network: default, none, host or a name",
        "NETWORK",
        details=(
            "The default network is a bridge with NAT. Separate several names by commas. Create "
            "networks with `network create`."
        ),
    ),
    Option(
        "network-alias",
        "DNS alias of the container on its networks",
        "NAME",
        kind="list",
        completed=False,
    ),
    Option("net-alias", value="NAME", kind="list"),
    Option("ip", "IP address of the container on its network", "IP"),
    Option("dns", "set a DNS server (default: the host's)", "IP", kind="list"),
    Option("dns-search", "set a DNS search domain", "DOMAIN", kind="list"),
    Option("dns-option", "set an option of resolv.conf", "OPTION", kind="list"),
    Option("dns-opt", value="OPTION", kind="list"),
    Option("add-host", "add a line to /etc/hosts", "NAME:IP", kind="list"),
    # Used only by --publish-all: --publish also publishes ports that are not exposed.
    Option("expose", value="PORT", kind="list"),
)

_HIGHEST_PORT = 65535
_PROTOCOLS = ("tcp", "udp")


def network_of(arguments: Arguments) -> Spec:
    """Return the members of a create request that ``NETWORK_OPTIONS`` set.

    Raises UsageError for an invalid option.
    """
    spec: Spec = {}
    if network := arguments.text("network") or arguments.text("net"):
        if network.startswith("container:"):
            hint = "containers on a network created with `network create` find each other by name"
            raise UsageError(f"--network={network} is not supported", hint)
        # "bridge" is the name of docker's default network.
        spec["network"] = "default" if network == "bridge" else network
    if address := arguments.text("ip"):
        spec["network"] = with_address(spec.get("network", "default"), address)
    if aliases := [*arguments.list("network-alias"), *arguments.list("net-alias")]:
        spec["network_aliases"] = aliases
    ports = [port for text in arguments.list("publish") for port in published_ports(text)]
    if arguments.flag("publish-all"):
        spec["publish_all"] = True
        exposed = [port for text in arguments.list("expose") for port in published_ports(text)]
        inside = {(port["port"], port["protocol"]) for port in ports}
        ports += [port for port in exposed if (port["port"], port["protocol"]) not in inside]
    if ports:
        spec["ports"] = ports
    for option in ("dns", "dns-search"):
        if values := arguments.list(option):
            spec[option.replace("-", "_")] = values
    if options := [*arguments.list("dns-option"), *arguments.list("dns-opt")]:
        spec["dns_options"] = options
    if hosts := [extra_host(text) for text in arguments.list("add-host")]:
        spec["hosts"] = hosts
    return spec


def published_ports(text: str) -> list[dict[str, Any]]:
    """Parse a value of ``--publish``; return entries of a create request's ``ports``.

    Examples of values are ``8080:80``, ``127.0.0.1:8080:80/udp``, ``80`` and ``8000-8009:80-89``.
    If the value has no host port, chooses a free one.  Raises UsageError for an invalid value, or
    if no host port is free.
    """
    ports, _, protocol = text.partition("/")
    host, _, inside = ports.rpartition(":")
    # An IPv6 address must be in brackets, because it contains colons.
    address, _, outside = host.rpartition(":") if ":" in host else ("", "", host)
    protocol = protocol or "tcp"
    if protocol not in _PROTOCOLS:
        raise _invalid_port(text)
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _invalid_port(text)
    targets = _port_range(inside, text)
    sources = _port_range(outside, text) if outside else [0] * len(targets)
    if len(sources) != len(targets):
        raise _invalid_port(text)
    return [
        {
            "host_ip": address,
            "host_port": source or _free_port(address, protocol),
            "port": target,
            "protocol": protocol,
        }
        for source, target in zip(sources, targets, strict=True)
    ]


def _port_range(text: str, whole: str) -> list[int]:
    first, dash, last = text.partition("-")
    low = _port_number(first, whole)
    high = _port_number(last, whole) if dash else low
    if high < low:
        raise _invalid_port(whole)
    return list(range(low, high + 1))


def _port_number(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits[:6]) <= _HIGHEST_PORT:
        raise _invalid_port(text)
    return int(digits)


def _free_port(address: str, protocol: str) -> int:
    """Return a free port on the host's ``address``.

    An empty ``address`` means all addresses.  Raises UsageError if no port is free.
    """
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    try:
        with socket.socket(family, kind) as probe:
            probe.bind((address, 0))
            port: int = probe.getsockname()[1]
    except OSError as error:
        raise UsageError(
            f"--publish: find a free port on {address or 'this host'}: {reason(error)}"
        ) from None
    return port


def _invalid_port(text: str) -> UsageError:
    hint = "use [[IP:]HOST_PORT:]CONTAINER_PORT[/tcp|/udp], or ranges of ports"
    return UsageError(f'--publish: invalid port "{text}"', hint)


def extra_host(text: str) -> dict[str, str]:
    """Parse a value of ``--add-host`` like ``db:10.0.0.2`` or ``db:::1``.

    Returns ``{"name", "address"}``.  Raises UsageError if it is invalid.
    """
    name, colon, address = text.partition(":")
    if not (name and colon and address):
        raise UsageError(f'--add-host: invalid host "{text}"', "use NAME:IP")
    if address == "host-gateway":
        hint = "use an address of the host, such as the gateway that network inspect shows"
        raise UsageError(f"--add-host={text} is not supported", hint)
    return {"name": name, "address": address.removeprefix("[").removesuffix("]")}


def with_address(network: str, address: str) -> str:
    """Return ``NETWORK:IP=ADDRESS`` for the options ``--network`` and ``--ip``.

    Raises UsageError for an invalid address, or if ``network`` is not exactly one network other
    than ``default``, ``none``, ``host`` and ``all``.
    """
    if network in ("default", "none", "host", "all") or "," in network or ":" in network:
        hint = "use --network=NETWORK, a network created with `ocictl network create`"
        raise UsageError(f'--ip: network "{network}": exactly one named network is required', hint)
    if not address or set(address) - set("0123456789abcdefABCDEF.:"):
        raise UsageError(f'--ip: "{address}" is not an IP address')
    return f"{network}:IP={address}"
