"""A running pod's networks, joined and left in a child, and what its apps find in /etc of them."""

from __future__ import annotations

from ociruntime.base import json_files as records
from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INFO = "net-info.json"


def networks_of(config: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, arguments) of each network of a runtime-config."""
    found = config.get("net")
    if found is None:
        return [("default", "")]
    return [(one, "") if isinstance(one, str) else (one[0], one[1]) for one in found]


def is_host_network(config: dict[str, Any]) -> bool:
    """Whether the pod has no network namespace of its own."""
    return config.get("flavor") == "fly" or networks_of(config) == [("host", "")]


def joins_networks(config: dict[str, Any]) -> bool:
    """Whether there is more than the host's own network, or a loopback alone."""
    return not is_host_network(config) and networks_of(config) != [("none", "")]


def bring_up(path: str, uuid: str, config: dict[str, Any], namespace: str) -> None:
    """Join the networks and write what /etc tells about them.

    ``namespace`` is the path of the pod's network namespace.  What is needed to leave is on the
    disk before anything is made.  Raises RuntimeFailure.
    """
    from ociruntime.pods.net import networks
    from ociruntime.pods.net.configuration import net_directories
    from ociruntime.pods.net.ports import forwarded

    request = networks.NetworkRequest(
        uuid=uuid,
        namespace_path=namespace,
        networks=networks_of(config),
        ports=forwarded(records.read(f"{path}/pod")),
        state_directory=f"{config['directory']}/net",
        config_directories=net_directories(
            config.get("user_config") or "",
            config.get("local_config") or "",
            config.get("system_config") or "",
        ),
        hostname=config.get("hostname") or "",
    )
    info = networks.plan(request)
    records.replace(f"{path}/{INFO}", info)
    info = networks.carry_out(info)
    records.replace(f"{path}/{INFO}", info)
    write_files(path, config, info["dns"])


def write_files(path: str, config: dict[str, Any], dns: dict[str, Any]) -> None:
    """resolv.conf, hosts and hostname, as far as they are not the images' own.

    ``dns`` is what the networks say.  Raises HostError.
    """
    from ociruntime.pods.net import resolver

    hostname = str(config.get("hostname") or "")
    if hostname:
        records.replace_text(f"{path}/hostname", f"{hostname}\n".encode(), 0o644, lasting=False)
    names = {"resolv.conf": config.get("dns") or {}, "hosts": config.get("hosts") or {}}
    texts = {
        "resolv.conf": resolver.resolv_conf(names["resolv.conf"], dns),
        "hosts": resolver.hosts(names["hosts"], hostname, False),
    }
    for name, text in texts.items():
        if names[name].get("mode") == resolver.HOST:
            text = _of_the_host(name)  # noqa: PLW2901 - instead of ours
        if text is not None:
            records.replace_text(f"{path}/{name}", text.encode(), 0o644, lasting=False)


def _of_the_host(name: str) -> str | None:
    try:
        return read_file(f"/etc/{name}").decode(errors="replace")
    except OSError:
        return None


def take_down(path: str) -> dict[str, Any]:
    """Leave the networks, by what was written when they were joined; ``{"problems": [text]}``."""
    try:
        info = records.read(f"{path}/{INFO}")
    except HostError:
        return {"problems": []}  # none were joined
    from ociruntime.pods.net.networks import tear_down

    return {"problems": tear_down(info)}
