"""Resolve a pod's forwarded ports to ports of its apps, and check them; pure."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError

ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def add_ports(manifest: dict[str, Any], ports: list[dict[str, Any]], where: str = "--port") -> None:
    """Add forwarded ``ports`` to the manifest; each names a port of an app.

    Several apps may have a port of that name if its number and protocol agree.  ``where``
    begins the errors.  Raises UsageError.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for entry in manifest["apps"]:
        for one in entry["app"].get("ports", ()):
            by_name.setdefault(one["name"], []).append(one)
    for port in ports:
        candidates = by_name.get(port["name"], [])
        distinct = sorted({f"{one['port']}/{one['protocol']}" for one in candidates})
        if len(distinct) > 1:
            message = f'{where}: "{port["name"]}" is ambiguous: the apps have {", ".join(distinct)}'
            raise UsageError(message, "give a number, as in 80-tcp")
        try:
            inside = candidates[0] if candidates else _unexposed(manifest, port["name"])
        except ValueError:
            known = ", ".join(sorted(by_name)) or "none"
            message = f'{where}: unknown port "{port["name"]}"'
            raise UsageError(
                message, f"ports of the images: {known}; or a number: 80-tcp"
            ) from None
        manifest["ports"].append({**port, "podPort": inside["port"]})
    check_ports(manifest, where)


def _unexposed(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Add a port that no image exposes, such as ``80-tcp``, to the first app, and return it.

    The apps share one network namespace, so any of them would do.  Raises ValueError if ``name``
    has another form.
    """
    port = port_of_name(name)
    if manifest["apps"]:
        manifest["apps"][0]["app"].setdefault("ports", []).append(port)
    return port


def check_ports(manifest: dict[str, Any], where: str) -> None:
    """Check that no two forwarded ports use the same host port.  Raises UsageError."""
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
    """Return the forwarded ports as ``{name, protocol, port, hostPort, hostIP}``."""
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
    """Parse ``80-tcp`` or ``80/tcp`` to a port in an app's manifest.  Raises ValueError."""
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
    """Refuse forwarded ports with --net=none or --net=host.  Raises UsageError."""
    for alone in ("none", "host"):
        if alone in networks and manifest.get("ports"):
            raise UsageError(f"--net={alone}: port forwarding is not possible", "leave out --port")
