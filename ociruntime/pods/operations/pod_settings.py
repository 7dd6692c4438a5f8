"""The file ``runtime-config`` in a pod's directory: settings that are not in its manifest.

    {"flavor", "runtime", "mutable", "on_failure", "on_exit", "net": [[name, arguments]],
     "net_names": [...], "dns", "hosts", "hostname", "domainname", "ipc", "pid", "uts",
     "shm_size", "interactive", "insecure": [...], "overlay",
     "private_users", "debug", "directory", "local_config", "user_config", "system_config",
     "kvm_kernel"}

``dns`` is documented in ``pods/net/resolv_conf.py``, ``hosts`` in ``pods/net/hosts_file.py``.
``private_users`` is null or ``{"shift", "count"}``: first host id and number of ids.
``kvm_kernel`` is optional; ``keep`` (true) marks a pod that gc must not remove.  ``prepare`` writes
the members that the pod's files depend on (``prepared_settings``), ``run`` adds the others.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.pods.manifest.request import PodRequest
from ociruntime.pods.manifest.user_ids import choose_private_ids

SHM_SIZE = 64 << 20


@dataclass(frozen=True)
class Host:
    """The global options of ``ocipod`` that are stored with a pod; paths are absolute."""

    directory: str
    runtime: str
    insecure: frozenset[str]
    local_config: str
    user_config: str
    system_config: str
    debug: bool

    def stored(self) -> dict[str, Any]:
        """Return the options as members of the pod's runtime-config, without the data directory.

        ``prepare`` stores them; ``run-prepared`` replaces them with its own options.
        """
        settings = asdict(self) | {"insecure": sorted(self.insecure)}
        del settings["directory"]
        return settings


def prepared_settings(host: Host, request: PodRequest, flavour: str) -> dict[str, Any]:
    """Return the members of a pod's runtime-config that are set when the pod is prepared."""
    private = choose_private_ids() if request.private_users else None
    return {
        "flavor": flavour,
        "mutable": False,
        "on_failure": "halt",
        "overlay": not request.no_overlay,
        "private_users": private,
        "directory": host.directory,
        **host.stored(),
    }


def run_settings(request: PodRequest, uuid: str, flavour: str) -> dict[str, Any]:
    """Return the members of a pod's runtime-config that are set when the pod is run.

    ``uuid`` is part of the default hostname; to check only the request, pass "".  Raises UsageError
    for an invalid or unsupported option, or for options that contradict each other.
    """
    from ociruntime.pods.net import hosts_file, net_option, resolv_conf

    networks = net_option.parse(request.net, request.where("net"))
    dns = resolv_conf.parse_dns(
        request.dns, request.dns_search, request.dns_opt, request.dns_domain
    )
    hosts = hosts_file.parse_hosts_entries(request.hosts_entry)
    if request.mds_register:
        raise UsageError("--mds-register: a metadata service is not supported")
    if request.shm_size is not None and request.ipc == "parent":
        raise UsageError("--shm-size and --ipc=parent are mutually exclusive")
    _check_namespaces(request)
    if flavour == "fly":  # shares the host's namespaces
        networks, ipc = [("host", "")], "parent"
    else:
        ipc = "parent" if request.ipc == "parent" else "private"
    if flavour == "kvm":
        from ociruntime.pods.kvm.machine_settings import check_networks

        check_networks(networks, "parent" if "parent" in (ipc, request.pid, request.uts) else "")
    shares_name = request.uts == "parent"
    return {
        "net": [list(network) for network in networks],
        "net_names": request.net_name,
        "dns": dns,
        "hosts": hosts,
        "hostname": request.hostname or (os.uname().nodename if shares_name else f"ocipod-{uuid}"),
        "domainname": request.domainname,
        "ipc": ipc,
        "pid": request.pid,
        "uts": request.uts,
        "shm_size": request.shm_size or SHM_SIZE,
        "interactive": request.interactive,
    }


def _check_namespaces(request: PodRequest) -> None:
    """Raise UsageError if ``request`` changes a namespace that the pod shares with the host.

    For example, --hostname and --uts=parent contradict each other.
    """
    if request.private_users and "parent" in (request.pid, request.uts):
        name = "pid" if request.pid == "parent" else "uts"
        raise UsageError(f"--private-users and --{name}=parent are mutually exclusive")
    if request.uts == "parent":
        for name in ("hostname", "domainname"):
            if getattr(request, name):
                raise UsageError(f"--{name} and --uts=parent are mutually exclusive")
