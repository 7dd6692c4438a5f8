"""Make CNI port mappings from the forwarded ports in a pod's manifest.

``connect_pod.py`` passes the mappings to a plugin in its ``runtimeConfig``.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError

HIGHEST = 65535
PROTOCOLS = ("tcp", "udp", "sctp")


def forwarded(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return CNI port mappings for the host ports that a pod's manifest forwards.

    Each is ``{"hostPort", "containerPort", "protocol", "hostIP"}``.  Raises PodError if the
    number of a port is unknown or invalid, if apps define a port differently, or if a host port is
    forwarded twice.
    """
    named: dict[str, list[dict[str, Any]]] = {}
    for app in manifest.get("apps") or ():
        for port in app.get("app", {}).get("ports") or ():
            named.setdefault(port["name"], []).append(port)
    mappings: list[dict[str, Any]] = []
    for publication in manifest.get("ports") or ():
        name = publication["name"]
        owners = named.get(name, [])
        # The apps share the network, so one name must mean one port.
        if any(_place(one) != _place(owners[0]) for one in owners):
            raise PodError(f'forward port "{name}": the apps define different ports with this name')
        port = owners[0] if owners else _port_of_name(name)
        if not port and not publication.get("podPort"):
            raise PodError(
                f'forward port "{name}": no app defines it',
                f"ports of the apps: {', '.join(named) or 'none'}",
            )
        mappings += _mappings(publication, port)
    taken = set()
    for one in mappings:
        key = (one["protocol"], one["hostIP"], one["hostPort"])
        if key in taken:
            raise PodError(
                f"forward host port {one['hostPort']}/{one['protocol']}: it is forwarded twice"
            )
        taken.add(key)
    return mappings


def _place(port: dict[str, Any]) -> tuple[object, ...]:
    return port.get("protocol"), port.get("port"), port.get("count")


def _port_of_name(name: str) -> dict[str, Any]:
    """Parse a port name such as ``80-tcp`` to ``{"port", "protocol"}``; return {} for other names.

    A port with such a name can be forwarded even if no app defines it.
    """
    number, _, protocol = name.partition("-")
    if not (number.isascii() and number.isdigit()) or protocol not in PROTOCOLS:
        return {}
    return {"port": int(number), "protocol": protocol}


def _mappings(publication: dict[str, Any], port: dict[str, Any]) -> list[dict[str, Any]]:
    inside = publication.get("podPort") or port["port"]
    count = port.get("count") or 1
    if (
        not publication.get("hostPort")
        or max(publication["hostPort"], inside) + count - 1 > HIGHEST
    ):
        raise PodError(
            f'forward port "{publication["name"]}": the port numbers must be 1 to {HIGHEST}'
        )
    return [
        {
            "hostPort": publication["hostPort"] + i,
            "containerPort": inside + i,
            "protocol": port.get("protocol") or "tcp",
            "hostIP": publication.get("hostIP") or "",
        }
        for i in range(count)
    ]
