"""Parse the option --port, and add the host ports to a pod's manifest.

The form of the option is ``--port NAME:[IP:]PORT``.  NAME is the name of a port in the pod, such as
``80-tcp``.  PORT is the host port that is forwarded to the pod's port.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.pods.net.addresses import parse_address

ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
PORT = checks.number(1, 65535)
_PORT_FORM = "use NAME:[IP:]PORT, such as 80-tcp:8080 or 80/tcp:127.0.0.1:8080"
_SANDBOX_PORT_FORM = "use NAME:PROTOCOL:PODPORT:HOSTIP:HOSTPORT, or a form such as 80-tcp:8080"


def address(where: str, value: str) -> None:
    """Check that ``value`` is an IP address, or "" for all addresses; if not, raise BadRequest."""
    checks.string(where, value)
    try:
        if value:
            parse_address(value)
    except ValueError:
        raise BadRequest(where, f'invalid IP address "{value}"') from None


check_port = checks.object_of(
    {"name": checks.nonempty, "hostPort": PORT, "hostIP": address}, "name", "hostPort", "hostIP"
)


def port(text: str, where: str = "--port") -> dict[str, Any]:
    """Parse ``text``, the value of a --port option, into ``{"name", "hostPort", "hostIP"}``.

    Raises UsageError for wrong syntax, BadRequest for a bad value.  Messages begin with ``where``.
    """
    name, _, rest = text.partition(":")
    address, _, number = rest.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or not 0 < int(number[:6]) < 65536:
        raise UsageError(f'{where}: invalid port "{text}"', _PORT_FORM)
    address = address.removeprefix("[").removesuffix("]")
    made = {"name": name.replace("/", "-"), "hostPort": int(number), "hostIP": address}
    check_port(f"{where} {text}", made)
    return made


def sandbox_port(text: str, where: str = "--port") -> dict[str, Any]:
    """Parse ``text``, a --port option of ``ocipod app sandbox``, into the same dict as ``port``.

    Accepts what ``port`` accepts, and rkt's form NAME:PROTOCOL:PODPORT:HOSTIP:HOSTPORT.  Raises
    UsageError for wrong syntax, BadRequest for a bad value.  Messages begin with ``where``.
    """
    fields = text.split(":", 3)
    if len(fields) < 4:
        return port(text, where)
    _, protocol, inside, rest = fields
    try:
        name = port_of_name(f"{inside}-{protocol}")["name"]
    except ValueError:
        raise UsageError(f'{where}: invalid port "{text}"', _SANDBOX_PORT_FORM) from None
    return port(f"{name}:{rest}", where)


def add_ports(manifest: dict[str, Any], ports: list[dict[str, Any]], where: str = "--port") -> None:
    """Add ``ports``, which the host forwards to a pod, to the pod's ``manifest``.

    Each port is ``{"name", "hostPort", "hostIP"}``.  ``name`` is the name of a port that an app's
    image exposes, or a number and protocol such as ``80-tcp``.  Raises UsageError, whose
    message begins with ``where``, if a name is unknown, if apps expose different ports under the
    same name, or if two ports use the same host port.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for entry in manifest["apps"]:
        for exposed in entry["app"].get("ports", ()):
            by_name.setdefault(exposed["name"], []).append(exposed)
    for port in ports:
        candidates = by_name.get(port["name"], [])
        distinct = sorted({f"{each['port']}/{each['protocol']}" for each in candidates})
        if len(distinct) > 1:
            raise UsageError(
                f'{where}: port "{port["name"]}" is ambiguous: apps expose {", ".join(distinct)}',
                "use a number, as in 80-tcp",
            )
        try:
            inside = candidates[0] if candidates else _unexposed(manifest, port["name"])
        except ValueError:
            known = ", ".join(sorted(by_name)) or "none"
            raise UsageError(
                f'{where}: unknown port "{port["name"]}"',
                f"ports of the images: {known}; or use a number, as in 80-tcp",
            ) from None
        manifest["ports"].append({**port, "podPort": inside["port"]})
    check_ports(manifest, where)


def _unexposed(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Add the port ``name``, which no image exposes, to the manifest's first app; return the port.

    The choice of app has no effect, because all apps share a network namespace.  Raises ValueError
    if ``name`` is not of the form ``80-tcp``.
    """
    port = port_of_name(name)
    if manifest["apps"]:
        manifest["apps"][0]["app"].setdefault("ports", []).append(port)
    return port


def check_ports(manifest: dict[str, Any], where: str) -> None:
    """Check that no two ports of a pod use the same port and address of the host.

    If they do, raises UsageError, whose message begins with ``where``.
    """
    seen: list[dict[str, Any]] = []
    for port in forwarded_ports(manifest):
        for other in seen:
            same = (port["protocol"], port["hostPort"]) == (other["protocol"], other["hostPort"])
            addresses = {port["hostIP"], other["hostIP"]}
            if same and (len(addresses) == 1 or addresses & ANY_ADDRESS):
                text = f"{port['protocol']} port {port['hostPort']} of the host"
                raise UsageError(f'{where}: "{other["name"]}" and "{port["name"]}" both use {text}')
        seen.append(port)


def forwarded_ports(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the host ports that the pod with this ``manifest`` publishes.

    Each port is ``{"name", "protocol", "port", "hostPort", "hostIP"}``.  ``port`` is the port's
    number inside the pod; ``hostIP`` is "" for all addresses of the host.
    """
    of_apps = {
        port["name"]: port for entry in manifest["apps"] for port in entry["app"].get("ports", ())
    }
    joined = []
    for port in manifest.get("ports", ()):
        inside = of_apps.get(port["name"])
        if inside is None:
            try:
                inside = port_of_name(port["name"])
            except ValueError:
                inside = {"protocol": port.get("protocol", "tcp"), "port": port.get("podPort", 0)}
        joined.append(
            {
                "name": port["name"],
                "protocol": inside["protocol"],
                "port": port.get("podPort") or inside["port"],
                "hostPort": port["hostPort"],
                "hostIP": port.get("hostIP") or "",
            }
        )
    return joined


def port_of_name(name: str) -> dict[str, Any]:
    """Parse ``name`` (``80-tcp``, ``80/tcp`` or ``80``) into a port of a manifest.

    Raises ValueError for any other name.
    """
    number, _, protocol = name.replace("/", "-").partition("-")
    protocol = protocol or "tcp"
    if not number.isdigit() or not 0 < int(number) < 65536 or protocol not in ("tcp", "udp"):
        raise ValueError(name)
    return {
        "name": f"{int(number)}-{protocol}",
        "protocol": protocol,
        "port": int(number),
        "count": 1,
        "socketActivated": False,
    }


def check_network(manifest: dict[str, Any], networks: list[str]) -> None:
    """Raise UsageError if a pod with ``--net=none`` or ``--net=host`` has forwarded ports."""
    for name in ("none", "host"):
        if name in networks and manifest.get("ports"):
            raise UsageError(f"--net={name}: port forwarding is not possible", "omit --port")
