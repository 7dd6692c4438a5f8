"""Connect a pod to its networks, and disconnect it."""

from __future__ import annotations

from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import PodError
from ociruntime.base.files import is_there
from ociruntime.pods.bundle import etc_files

INFO = "net-info.json"


def networks_of(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the networks in a pod's runtime-config ``config`` as pairs (name, CNI arguments)."""
    networks = config.get("net")
    if networks is None:
        return [("default", "")]
    return [(net, "") if isinstance(net, str) else (net[0], net[1]) for net in networks]


def is_host_network(config: dict[str, Any]) -> bool:
    """Return whether a pod uses the host's network namespace; ``config`` is its runtime-config."""
    return config.get("flavor") == "fly" or networks_of(config) == [("host", "")]


def joins_networks(config: dict[str, Any]) -> bool:
    """Return whether a pod is connected to a network; ``config`` is its runtime-config.

    Returns False if the pod has only a loopback interface, or uses the host's network namespace.
    """
    return not is_host_network(config) and networks_of(config) != [("none", "")]


def bring_up(path: str, uuid: str, config: dict[str, Any], namespace: str) -> None:
    """Connect the pod to its networks, and write its resolv.conf, hosts and hostname.

    ``path`` is the pod's directory, ``config`` its runtime-config, ``namespace`` the path of its
    network namespace.  Writes net-info.json before it creates an interface, so that ``take_down``
    can clean up after a crash.  Raises RuntimeFailure if a network cannot be joined or a file
    cannot be written.
    """
    from ociruntime.pods.net import connect_pod
    from ociruntime.pods.net.forwarded_ports import forwarded
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
    etc_files.write_etc_files(path, config, info["dns"], named=named)
    if named:
        is_host_file = (config.get("hosts") or {}).get("mode") == etc_files.HOST
        hosts = "" if is_host_file else f"{path}/hosts"
        connect_pod.give_names(info, names_of(config, manifest), hosts)


def has_names(path: str) -> bool:
    """Return whether the pod with directory ``path`` is on a network with names.

    Pods on such a network find each other by name, through their hosts files.  Returns False if
    net-info.json is damaged.
    """
    if not is_there(f"{path}/{INFO}"):
        return False
    try:
        joined = json_files.read(f"{path}/{INFO}")["networks"]
    except (PodError, KeyError):
        return False
    return any(network.get("names") for network in joined)


def names_of(config: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """Return the names by which other pods on the same networks find a pod.

    ``config`` is the pod's runtime-config.  The names are the values of --net-name, or else the
    names of the pod's apps.  The pod's hostname, which may be "", is appended.
    """
    names = config.get("net_names") or [app["name"] for app in manifest.get("apps") or ()]
    return [*names, config.get("hostname") or ""]


def take_down(path: str) -> dict[str, Any]:
    """Disconnect the pod with directory ``path`` from the networks in its net-info.json.

    Returns ``{"problems": [error message, ...]}``.  Raises PodError if the file is damaged.
    """
    if not is_there(f"{path}/{INFO}"):
        return {"problems": []}  # no networks were joined
    info = json_files.read(f"{path}/{INFO}")
    from ociruntime.pods.net.connect_pod import tear_down

    return {"problems": tear_down(info)}
