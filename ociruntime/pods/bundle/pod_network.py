"""Connect a pod to its networks, and write its resolv.conf, hosts and hostname."""

from __future__ import annotations

from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import is_there, read_file

HIGHEST = 65535
PROTOCOLS = ("tcp", "udp", "sctp")
INFO = "net-info.json"
HOST = "host"  # mode of resolv.conf and hosts: the host's own file
# Lists the servers to which systemd-resolved forwards.  /etc/resolv.conf names its stub resolver,
# which listens on the host's loopback: a pod cannot reach it.
UPSTREAM = "/run/systemd/resolve/resolv.conf"


def networks_of(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, CNI arguments) of each network in ``config``, a pod's runtime-config."""
    networks = config.get("net")
    if networks is None:
        return [("default", "")]
    return [(net, "") if isinstance(net, str) else (net[0], net[1]) for net in networks]


def is_host_network(config: dict[str, Any]) -> bool:
    """Return whether a pod uses the host's network namespace; ``config`` is its runtime-config."""
    return config.get("flavor") == "fly" or networks_of(config) == [("host", "")]


def joins_networks(config: dict[str, Any]) -> bool:
    """Return whether a pod is connected to a network; ``config`` is its runtime-config.

    It is not if it has only a loopback interface, or uses the host's network namespace.
    """
    return not is_host_network(config) and networks_of(config) != [("none", "")]


def bring_up(path: str, uuid: str, config: dict[str, Any], namespace: str) -> None:
    """Connect the pod to its networks, and write its resolv.conf, hosts and hostname.

    ``path`` is the pod's directory, ``config`` its runtime-config, ``namespace`` the path of its
    network namespace.  Writes net-info.json before it creates an interface, so that ``take_down``
    can clean up after a crash.  Raises RuntimeFailure.
    """
    from ociruntime.pods.net import connect_pod
    from ociruntime.pods.net.network_configs import net_directories

    manifest = json_files.read(f"{path}/pod")
    request = connect_pod.NetworkRequest(
        uuid=uuid,
        namespace_path=namespace,
        networks=networks_of(config),
        ports=forwarded(manifest),
        state_directory=f"{config['directory']}/net",
        config_directories=net_directories(
            config.get("user_config") or "",
            config.get("local_config") or "",
            config.get("system_config") or "",
            config["directory"],
        ),
        hostname=config.get("hostname") or "",
    )
    info = connect_pod.plan(request)
    json_files.replace(f"{path}/{INFO}", info)
    info = connect_pod.carry_out(info)
    json_files.replace(f"{path}/{INFO}", info)
    named = any(network["names"] for network in info["networks"])
    write_files(path, config, info["dns"], named=named)
    if named:
        is_host_file = (config.get("hosts") or {}).get("mode") == HOST
        hosts = "" if is_host_file else f"{path}/hosts"
        connect_pod.give_names(info, names_of(config, manifest), hosts)


def has_names(path: str) -> bool:
    """Return whether the pod with directory ``path`` is on a network where pods have names.

    Pods on such a network find each other by name, through their hosts files.
    """
    if not is_there(f"{path}/{INFO}"):
        return False
    try:
        joined = json_files.read(f"{path}/{INFO}")["networks"]
    except (PodError, KeyError):
        return False
    return any(network.get("names") for network in joined)


def names_of(config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """Return the names by which other pods on its networks find the pod.

    These are the values of --net-name, or else the names of its apps; the last one is the hostname,
    which may be "".
    """
    names = config.get("net_names") or [app["name"] for app in manifest.get("apps") or ()]
    return [*names, config.get("hostname") or ""]


def write_files(
    path: str, config: dict[str, Any], dns: dict[str, Any], *, named: bool = False
) -> None:
    """Write the pod's resolv.conf, hosts and hostname, unless it uses the images' own files.

    ``dns`` is the member ``dns`` of the CNI results.  With ``named``, the hosts file does not
    contain the hostname: ``give_names`` adds it later, with the pod's address.  Raises HostError.
    """
    from ociruntime.pods.net import hosts_entries, resolv_conf

    hostname = str(config.get("hostname") or "")
    if hostname:
        json_files.replace_text(f"{path}/hostname", f"{hostname}\n".encode(), 0o644, lasting=False)
    domain = str(config.get("domainname") or "")
    own = [f"{hostname}.{domain}", hostname] if hostname and domain else [hostname]
    names = {"resolv.conf": config.get("dns") or {}, "hosts": config.get("hosts") or {}}
    host_dns = _host_dns(is_host_network(config))
    texts = {
        "resolv.conf": resolv_conf.resolv_conf(names["resolv.conf"], dns, host_dns),
        "hosts": hosts_entries.hosts(names["hosts"], "" if named else " ".join(own), False),
    }
    for name, text in texts.items():
        if names[name].get("mode") == HOST:
            text = _host_file(f"/etc/{name}")  # noqa: PLW2901 - replaces our text by the host's
        if text is not None:
            json_files.replace_text(f"{path}/{name}", text.encode(), 0o644, lasting=False)


def _host_dns(is_host_network: bool) -> dict[str, Any]:
    """Return the DNS settings in the host's resolv.conf, without servers that a pod cannot reach.

    The result has the form of ``dns`` in CNI results.
    """
    from ociruntime.pods.net.resolv_conf import host_dns

    settings = host_dns(_host_file("/etc/resolv.conf") or "", is_host_network)
    if not settings.get("nameservers") and (upstream := _host_file(UPSTREAM)):
        settings["nameservers"] = host_dns(upstream, is_host_network).get("nameservers", [])
    return settings


def _host_file(path: str) -> str | None:
    try:
        return read_file(path).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"read {path}", error) from None


def take_down(path: str) -> dict[str, Any]:
    """Disconnect the pod with directory ``path`` from the networks in its net-info.json.

    Returns ``{"problems": [error message, ...]}``.
    """
    if not is_there(f"{path}/{INFO}"):
        return {"problems": []}  # no networks were joined
    info = json_files.read(f"{path}/{INFO}")
    from ociruntime.pods.net.connect_pod import tear_down

    return {"problems": tear_down(info)}


def forwarded(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return CNI port mappings for the host ports that a pod's manifest forwards.

    Each is ``{"hostPort", "containerPort", "protocol", "hostIP"}``.  Raises PodError if no app
    defines a port, if apps define it differently, or if a host port is forwarded twice.
    """
    named: dict[str, list[dict[str, Any]]] = {}
    for app in manifest.get("apps") or ():
        for port in app.get("app", {}).get("ports") or ():
            named.setdefault(port["name"], []).append(port)
    mappings: list[dict[str, Any]] = []
    for wish in manifest.get("ports") or ():
        name = wish["name"]
        owners = named.get(name, [])
        # The apps share the network, so one name must mean one port.
        if any(_place(one) != _place(owners[0]) for one in owners):
            raise PodError(f'forward port "{name}": the apps of the pod define it differently')
        port = owners[0] if owners else _port_of_name(name)
        if not port and not wish.get("podPort"):
            raise PodError(
                f'forward port "{name}": no app defines it',
                f"ports of the apps: {', '.join(named) or 'none'}",
            )
        mappings += _mappings(wish, port)
    taken = set()
    for one in mappings:
        key = (one["protocol"], one["hostIP"], one["hostPort"])
        if key in taken:
            raise PodError(
                f"forward host port {one['hostPort']}/{one['protocol']}: the port is used twice"
            )
        taken.add(key)
    return mappings


def _place(port: dict[str, Any]) -> tuple[object, ...]:
    return port.get("protocol"), port.get("port"), port.get("count")


def _port_of_name(name: str) -> dict[str, Any]:
    """Parse ``name``, such as ``80-tcp``, to ``{"port", "protocol"}``; return {} for other names.

    A port with such a name can be forwarded even if no app defines it.
    """
    number, _, protocol = name.partition("-")
    if not (number.isascii() and number.isdigit()) or protocol not in PROTOCOLS:
        return {}
    return {"port": int(number), "protocol": protocol}


def _mappings(wish: dict[str, Any], port: dict[str, Any]) -> list[dict[str, Any]]:
    inside = wish.get("podPort") or port["port"]
    count = port.get("count") or 1
    if not wish.get("hostPort") or max(wish["hostPort"], inside) + count - 1 > HIGHEST:
        raise PodError(
            f'forward port "{wish["name"]}": it must have a host port, and both must be at most '
            f"{HIGHEST}"
        )
    return [
        {
            "hostPort": wish["hostPort"] + i,
            "containerPort": inside + i,
            "protocol": port.get("protocol") or "tcp",
            "hostIP": wish.get("hostIP") or "",
        }
        for i in range(count)
    ]
