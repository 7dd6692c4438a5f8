"""A pod's settings besides its manifest: the file ``runtime-config`` in its directory.

    {"flavor", "runtime", "mutable", "on_failure", "net": [[name, arguments]], "dns", "hosts",
     "hostname", "ipc", "shm_size", "interactive", "insecure": [...], "overlay",
     "private_users", "debug", "directory", "local_config", "user_config", "system_config",
     "kvm_kernel"}

``dns`` and ``hosts`` are documented in ``pods/net/resolver.py``.  ``private_users`` is null or
``{"shift", "count"}``: first host id and number of ids.  ``kvm_kernel`` is optional; ``keep``
(true) marks a pod that gc must not remove.  ``prepare`` writes the members that its files depend
on (``prepared_settings``), ``run`` adds the others.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.commandline.parser import Arguments

SHM_SIZE = 64 << 20
COUNT = 65536  # number of ids of a pod with --private-users
_HIGHEST_SHIFT = 1 << 15  # in units of COUNT: keeps ids below 2^31


class Host:
    """Global options of ``ocipod`` that a pod stores; directories are absolute paths."""

    __slots__ = (
        *("debug", "directory", "insecure", "local_config", "runtime", "system_config"),
        "user_config",
    )

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.runtime = "ociruntime"
        self.insecure: frozenset[str] = frozenset()
        self.local_config = ""
        self.user_config = ""
        self.system_config = ""
        self.debug = False


def prepared_settings(
    host: Host, flavour: str, private_users: bool, overlay: bool
) -> dict[str, Any]:
    """Return the settings that are fixed when the pod is prepared."""
    return {
        "flavor": flavour,
        "runtime": host.runtime,
        "mutable": False,
        "on_failure": "halt",
        "insecure": sorted(host.insecure),
        "overlay": overlay,
        "private_users": {"shift": _new_shift(), "count": COUNT} if private_users else None,
        "debug": host.debug,
        "directory": host.directory,
        "local_config": host.local_config,
        "user_config": host.user_config,
        "system_config": host.system_config,
    }


def run_settings(values: Arguments, uuid: str, flavour: str) -> dict[str, Any]:
    """Return the settings from options of ``run``, ``run-prepared`` or ``app sandbox``.

    Pass an empty ``uuid`` to check the options only.  Raises UsageError.
    """
    from ociruntime.pods.net import choice, resolver

    # The parser stores "true" for --net without a value.
    names = [name for name in values.text("net").split(",") if name not in ("", "true")]
    networks = choice.parse(names)
    dns = resolver.parse_dns(
        values.list("dns"),
        values.list("dns-search"),
        values.list("dns-opt"),
        values.text("dns-domain"),
    )
    hosts = resolver.parse_hosts_entries(values.list("hosts-entry"))
    hostname = values.text("hostname") or f"ocipod-{uuid}"
    if not _is_host_name(hostname):
        hint = "letters, digits, dashes and dots, at most 64"
        raise UsageError(f'--hostname: invalid hostname "{hostname}"', hint)
    if values.flag("mds-register"):
        raise UsageError("--mds-register: a metadata service is not supported")
    if values.has("shm-size") and values.text("ipc") == "parent":
        raise UsageError("--shm-size and --ipc=parent are mutually exclusive")
    if flavour == "fly":  # shares the host's namespaces
        networks, ipc = [("host", "")], "parent"
    else:
        ipc = "parent" if values.text("ipc") == "parent" else "private"
    if flavour == "kvm":
        from ociruntime.pods.kvm.settings import check_networks

        check_networks(networks, ipc)
    return {
        "net": [list(network) for network in networks],
        "dns": dns,
        "hosts": hosts,
        "hostname": hostname,
        "ipc": ipc,
        "shm_size": _shm_size(values),
        "interactive": values.flag("interactive"),
    }


def _shm_size(values: Arguments) -> int:
    """Return the size of /dev/shm in bytes.  Raises UsageError."""
    from ociruntime.pods.manifest.isolators import size_option

    return size_option(values, "shm-size") if values.has("shm-size") else SHM_SIZE


def _new_shift() -> int:
    """Return a random first host id for the pod: a multiple of COUNT, 131072 or higher."""
    import os

    number = int.from_bytes(os.urandom(4), "little") % (_HIGHEST_SHIFT - 2)
    return (number + 2) * COUNT


def _is_host_name(text: str) -> bool:
    return len(text) < 65 and all(
        part and part.isascii() and part.replace("-", "").isalnum() and part.strip("-") == part
        for part in text.rstrip("-").split(".")
    )
