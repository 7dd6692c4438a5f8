"""Write a pod's resolv.conf, hosts and hostname, which are bind-mounted to /etc in its apps."""

from __future__ import annotations

from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file

HOST = "host"  # mode of resolv.conf and hosts: the host's own file
# Lists the servers to which systemd-resolved forwards.  /etc/resolv.conf names its stub resolver,
# which listens on the host's loopback: a pod cannot reach it.
UPSTREAM = "/run/systemd/resolve/resolv.conf"


def write_etc_files(
    path: str,
    config: dict[str, Any],
    dns: dict[str, Any],
    *,
    on_host_network: bool = False,
    named: bool = False,
) -> None:
    """Write the pod's resolv.conf, hosts and hostname, unless the pod uses the images' own files.

    ``path`` is the pod's directory, ``config`` its runtime-config, ``dns`` the member ``dns`` of
    the CNI results.  ``on_host_network`` is True if the pod uses the host's network.  Other pods
    cannot reach name servers on the host's loopback, so these are left out of their resolv.conf.
    With ``named``, the hosts file does not contain the hostname: ``give_names`` in
    ``net/connect_pod.py`` adds it later, with the pod's address.  Raises HostError if a file cannot
    be read or written.
    """
    from ociruntime.pods.net import hosts_file, resolv_conf

    hostname = str(config.get("hostname") or "")
    if hostname:
        json_files.replace_text(f"{path}/hostname", f"{hostname}\n".encode(), 0o644, lasting=False)
    domain = str(config.get("domainname") or "")
    own = [f"{hostname}.{domain}", hostname] if hostname and domain else [hostname]
    names = {"resolv.conf": config.get("dns") or {}, "hosts": config.get("hosts") or {}}
    host_dns = _host_dns(on_host_network)
    texts = {
        "resolv.conf": resolv_conf.resolv_conf(names["resolv.conf"], dns, host_dns),
        "hosts": hosts_file.hosts(names["hosts"], "" if named else " ".join(own), False),
    }
    for name, text in texts.items():
        if names[name].get("mode") == HOST:
            text = _host_file(f"/etc/{name}")  # noqa: PLW2901 - replaces our text by the host's
        if text is not None:
            json_files.replace_text(f"{path}/{name}", text.encode(), 0o644, lasting=False)


def _host_dns(on_host_network: bool) -> dict[str, Any]:
    """Return the DNS settings in the host's resolv.conf, for a pod's resolv.conf.

    Leaves out name servers that the pod cannot reach.  If none remain, uses the upstream servers of
    systemd-resolved.  The result has the form of ``dns`` in CNI results.
    """
    from ociruntime.pods.net.resolv_conf import host_dns

    settings = host_dns(_host_file("/etc/resolv.conf") or "", on_host_network)
    if not settings.get("nameservers") and (upstream := _host_file(UPSTREAM)):
        settings["nameservers"] = host_dns(upstream, on_host_network).get("nameservers", [])
    return settings


def _host_file(path: str) -> str | None:
    try:
        return read_file(path).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
