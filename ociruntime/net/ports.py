"""Ports of apps that the host forwards; pure."""

from __future__ import annotations

from ociruntime.errors import PodError, UsageError
from ociruntime.net.addresses import parse_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HIGHEST = 65535


def parse_port(text: str) -> dict[str, Any]:
    """``NAME:[IP:]HOSTPORT`` -> ``{"name", "hostPort", "hostIP"}``.  Raises UsageError.

    An IPv6 address is in brackets.  ``80/tcp`` is another form of the name ``80-tcp``.
    """
    name, colon, rest = text.partition(":")
    host_ip, _, number = rest.rpartition(":")
    if host_ip.startswith("[") and host_ip.endswith("]"):
        host_ip = host_ip[1:-1]
    elif ":" in host_ip:
        colon = ""
    try:
        if host_ip:
            parse_address(host_ip)
    except ValueError:
        colon = ""
    good = number.isascii() and number.isdigit() and 0 < int(number) <= HIGHEST
    if not name or not colon or not good:
        raise UsageError(f'--port: "{text}" is not NAME:[IP:]HOSTPORT', "80-tcp:8080")
    return {"name": name.replace("/", "-"), "hostPort": int(number), "hostIP": host_ip}


def forwarded(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """``ports`` of a pod's manifest joined with the apps' -> mappings, one a port, for CNI.

    ``{"hostPort", "containerPort", "protocol", "hostIP"}``.  Raises PodError: a port that no app,
    or that several apps have, or one of the host twice.
    """
    named: dict[str, list[dict[str, Any]]] = {}
    for app in manifest.get("apps") or ():
        for port in app.get("app", {}).get("ports") or ():
            named.setdefault(port["name"], []).append(port)
    mappings: list[dict[str, Any]] = []
    for wish in manifest.get("ports") or ():
        name = wish["name"]
        owners = named.get(name, [])
        if len(owners) > 1:
            raise PodError(f'port "{name}" is in several apps')
        if not owners and not wish.get("podPort"):
            raise PodError(f'no app has a port "{name}"', ", ".join(named) or "no app has any")
        mappings += _mappings(wish, owners[0] if owners else {})
    taken = set()
    for one in mappings:
        key = (one["protocol"], one["hostIP"], one["hostPort"])
        if key in taken:
            raise PodError(f"port {one['hostPort']}/{one['protocol']} of the host is there twice")
        taken.add(key)
    return mappings


def _mappings(wish: dict[str, Any], port: dict[str, Any]) -> list[dict[str, Any]]:
    inside = wish.get("podPort") or port["port"]
    count = port.get("count") or 1
    if not wish.get("hostPort") or max(wish["hostPort"], inside) + count - 1 > HIGHEST:
        raise PodError(f'port "{wish["name"]}" is beyond {HIGHEST} or has no port of the host')
    return [
        {
            "hostPort": wish["hostPort"] + i,
            "containerPort": inside + i,
            "protocol": port.get("protocol") or "tcp",
            "hostIP": wish.get("hostIP") or "",
        }
        for i in range(count)
    ]
