"""What a pod is run with, besides its manifest: the private file ``runtime-config``.

    {"flavor", "runtime", "mutable", "on_failure", "net": [[name, arguments]], "dns", "hosts",
     "hostname", "ipc", "shm_size", "interactive", "insecure": [...], "overlay",
     "private_users", "debug", "directory", "local_config", "user_config", "system_config",
     "kvm_kernel"}

``dns`` and ``hosts`` are as of ``pods/net/resolver.py``, ``private_users`` is null or
``{"shift", "count"}``, ``kvm_kernel`` is there if it was told, ``keep`` (true) in a pod that gc is
to leave alone.  A pod that waits in prepared has what concerns its files; the rest comes when it is
run.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.manifest.app_arguments import Values

SHM_SIZE = 64 << 20
COUNT = 65536  # ids of a pod with users of its own
_HIGHEST_SHIFT = 1 << 15  # in counts: the ids stay below 2^31


class Host:
    """The settings of this installation that a pod remembers: directories are absolute paths."""

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
    """What is decided when the pod is prepared."""
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


def run_settings(values: Values, uuid: str, flavour: str) -> dict[str, Any]:
    """What the options of ``run``, ``run-prepared`` and ``app sandbox`` say.  Raises UsageError.

    ``uuid`` may be empty while only the options are to be checked.
    """
    from ociruntime.pods.net import choice, resolver

    # "true" is an option whose value was left out.
    words = [word for word in values.text("net").split(",") if word not in ("", "true")]
    networks = choice.parse(words)
    dns = resolver.parse_dns(
        values.list("dns"),
        values.list("dns-search"),
        values.list("dns-opt"),
        values.text("dns-domain"),
    )
    hosts = resolver.parse_hosts_entries(values.list("hosts-entry"))
    hostname = values.text("hostname") or f"ocipod-{uuid}"
    if not _is_host_name(hostname):
        hint = "letters, digits, dashes and dots, 64 at most"
        raise UsageError(f'--hostname: "{hostname}" is no name of a host', hint)
    if values.flag("mds-register"):
        raise UsageError("--mds-register: there is no metadata service")
    if values.has("shm-size") and values.text("ipc") == "parent":
        raise UsageError("--shm-size: with --ipc=parent /dev/shm is the host's")
    if flavour == "fly":  # there is nothing but the host's
        networks, ipc = [("host", "")], "parent"
    else:
        ipc = "parent" if values.text("ipc") == "parent" else "private"
    if flavour == "kvm":
        from ociruntime.pods.kvm.refusals import check_networks

        check_networks(networks, ipc)
    return {
        "net": [list(network) for network in networks],
        "dns": dns,
        "hosts": hosts,
        "hostname": hostname,
        "ipc": ipc,
        "shm_size": _memory_size(values),
        "interactive": values.flag("interactive"),
    }


def _memory_size(values: Values) -> int:
    """Bytes of /dev/shm.  Raises UsageError."""
    from ociruntime.pods.manifest.isolators import size_option

    return size_option(values, "shm-size") if values.has("shm-size") else SHM_SIZE


def _new_shift() -> int:
    """The first of ids that hardly any other pod has, beyond those of the host."""
    import os

    number = int.from_bytes(os.urandom(4), "little") % (_HIGHEST_SHIFT - 2)
    return (number + 2) * COUNT


def _is_host_name(text: str) -> bool:
    return len(text) < 65 and all(
        part and part.isascii() and part.replace("-", "").isalnum() and part.strip("-") == part
        for part in text.rstrip("-").split(".")
    )
