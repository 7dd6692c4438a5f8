"""Ports of apps that the host forwards; pure."""

from __future__ import annotations

from ociruntime.base.errors import PodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HIGHEST = 65535
PROTOCOLS = ("tcp", "udp", "sctp")


def forwarded(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """``ports`` of a pod's manifest joined with the apps' -> mappings, one a port, for CNI.

    ``{"hostPort", "containerPort", "protocol", "hostIP"}``.  Raises PodError: a port that no app
    has, one that is another in each app, or one of the host twice.
    """
    named: dict[str, list[dict[str, Any]]] = {}
    for app in manifest.get("apps") or ():
        for port in app.get("app", {}).get("ports") or ():
            named.setdefault(port["name"], []).append(port)
    mappings: list[dict[str, Any]] = []
    for wish in manifest.get("ports") or ():
        name = wish["name"]
        owners = named.get(name, [])
        # The apps have one network: under one name one port is meant, whoever tells of it.
        if any(_place(one) != _place(owners[0]) for one in owners):
            raise PodError(f'port "{name}" is in several apps, and not the same')
        port = owners[0] if owners else _port_of_name(name)
        if not port and not wish.get("podPort"):
            raise PodError(f'no app has a port "{name}"', ", ".join(named) or "no app has any")
        mappings += _mappings(wish, port)
    taken = set()
    for one in mappings:
        key = (one["protocol"], one["hostIP"], one["hostPort"])
        if key in taken:
            raise PodError(f"port {one['hostPort']}/{one['protocol']} of the host is there twice")
        taken.add(key)
    return mappings


def _place(port: dict[str, Any]) -> tuple[object, ...]:
    return port.get("protocol"), port.get("port"), port.get("count")


def _port_of_name(name: str) -> dict[str, Any]:
    """``80-tcp``: no app need have said so.  {} for other names."""
    number, _, protocol = name.partition("-")
    if not (number.isascii() and number.isdigit()) or protocol not in PROTOCOLS:
        return {}
    return {"port": int(number), "protocol": protocol}


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
