"""A running pod's networks and what its apps find in /etc about them; all of it in a child."""

from __future__ import annotations

from ociruntime.errors import HostError
from ociruntime.host.files import read_file
from ociruntime.monitor import records

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


def bring_up(path: str, uuid: str, config: dict[str, Any], namespace: str) -> None:
    """Join the networks and write resolv.conf and hosts.

    ``namespace`` is the path of the pod's network namespace.  What is needed to leave is on the
    disk before anything is made.  Raises RuntimeFailure.
    """
    from ociruntime.net import networks
    from ociruntime.net.configuration import net_directories
    from ociruntime.net.ports import forwarded

    info: dict[str, Any] = {}
    if not is_host_network(config):
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
        if info["networks"]:  # else nothing has been filled in
            records.replace(f"{path}/{INFO}", info)
    _write_resolver_files(path, config, info)


def _write_resolver_files(path: str, config: dict[str, Any], info: dict[str, Any]) -> None:
    from ociruntime.net import resolver

    names = {"resolv.conf": config.get("dns") or {}, "hosts": config.get("hosts") or {}}
    texts = {
        "resolv.conf": resolver.resolv_conf(names["resolv.conf"], info.get("dns") or {}),
        "hosts": resolver.hosts(names["hosts"], str(config.get("hostname") or ""), False),
    }
    for name, text in texts.items():
        if names[name].get("mode") == resolver.HOST:
            text = _of_the_host(name)  # noqa: PLW2901 - instead of ours
        if text is not None:
            records.replace_text(f"{path}/{name}", text.encode(), 0o644)


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
    if info.get("networks") == []:
        return {"problems": []}  # the pod has a loopback alone
    from ociruntime.net.networks import tear_down

    return {"problems": tear_down(info)}
