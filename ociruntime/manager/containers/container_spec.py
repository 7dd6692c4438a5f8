"""Validate a container's spec, the body of ``POST /v1/containers``.

    {"name", "image" or "rootfs", "command": [...], "entrypoint": [...], "env": {NAME: VALUE},
     "working_dir", "user", "group", "volumes": [{"source" or "name", "target", "read_only",
     "no_copy", "propagation"}], "volumes_from": [{"container", "read_only"}],
     "ports": [{"host_ip", "host_port", "port", "protocol"}], "publish_all", "network",
     "network_aliases": [...], "hostname", "dns": [...], "dns_search": [...],
     "dns_options": [...], "hosts": [{"name", "address"}], "ipc",
     "shm_size": bytes, "memory": bytes, "cpus", "cpu_shares", "pids_limit", "oom_score_adj",
     "group_add": [gid], "cap_add": [...], "cap_drop": [...], "no_new_privileges", "seccomp",
     "read_only", "tty", "stdin", "labels": {NAME: VALUE}, "restart_policy": {"name", "maximum"},
     "stop_signal", "stop_timeout", "auto_remove", "pull_policy", "insecure": [...],
     "ulimits": [{"name", "soft", "hard"}], "sysctls": {NAME: VALUE},
     "tmpfs": [{"target", "options": [...]}], "memory_swap": bytes, "memory_reservation": bytes,
     "pid", "uts", "domainname", "devices": [{"source", "target", "access"}], "privileged",
     "platform", "cpu_quota": microseconds, "cpu_period": microseconds, "cpuset_cpus",
     "cpuset_mems"}

Either ``image`` or ``rootfs`` is required; with ``rootfs``, so is ``command`` or ``entrypoint``.
Unknown members are refused.  A volume with neither ``source`` nor ``name`` is anonymous.
``ocipod_requests.py`` translates a valid spec.
"""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base import checks
from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import BadRequest, ImageError, PodError
from ociruntime.base.paths import clean
from ociruntime.commandline.signal_names import signal_name
from ociruntime.commandline.sizes import CPU_RANGE
from ociruntime.images.model.platforms import parse_platform
from ociruntime.manager.containers.container_names import check_name
from ociruntime.pods.bundle.host_devices import check_source
from ociruntime.pods.manifest import ports, user_ids, volumes
from ociruntime.pods.manifest import request as requests
from ociruntime.pods.manifest.isolators import (
    PERIOD_RANGE,
    QUOTA_RANGE,
    SHARES_RANGE,
)
from ociruntime.pods.manifest.kernel_settings import (
    check_cpu_list,
    check_sysctls,
    check_ulimit,
    namespace_of,
)
from ociruntime.pods.manifest.tmpfs_and_devices import check_device, check_tmpfs
from ociruntime.pods.net import net_option

Spec = dict[str, Any]

NO = "no"
ON_FAILURE = "on-failure"
ALWAYS = "always"
UNLESS_STOPPED = "unless-stopped"
# Pull policy of a spec -> value of `ocipod fetch --pull-policy`.
PULL_POLICIES = {"missing": "new", "always": "update", "never": "never"}
INSECURE = ("image", "tls", "http", "pubkey", "capabilities", "paths", "seccomp")
ALL = "ALL"

# Members that ``update`` changes: limits, and the restart policy.
CHANGEABLE = (
    *("memory", "memory_swap", "memory_reservation", "cpus", "cpu_quota", "cpu_period"),
    *("cpu_shares", "cpuset_cpus", "cpuset_mems", "pids_limit", "restart_policy"),
)
UNCONFINED = "unconfined"
IPC_MODES = {"private": "private", "host": "parent"}  # -> value of ``ipc`` in SandboxRequest
HOST = "host"  # value of the members pid and uts
# Default values of members that a spec does not contain.
DEFAULTS: dict[str, Any] = {
    "network": "default",
    "pull_policy": "missing",
    "restart_policy": {"name": NO},
    "stop_signal": "SIGTERM",
    "stop_timeout": 10,  # seconds
}
_WITHOUT_PORTS = ("none", "host")
WITHOUT_NAMES = (["default"], ["none"], ["host"])  # lists of networks that need no configuration
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def check_spec(spec: object) -> Spec:
    """Validate a client's spec; return a copy without the members that are null.

    Raises BadRequest with the JSON path of an invalid member.
    """
    request = checks.check_object(spec, _MEMBERS, "the spec of the container")
    if "platform" in request and "rootfs" in request:
        raise BadRequest(
            "platform", "cannot be combined with rootfs: a platform selects a variant of an image"
        )
    if ("image" in request) == ("rootfs" in request):
        raise BadRequest("image", "exactly one of image and rootfs is required")
    if "rootfs" in request and not request.get("command") and not request.get("entrypoint"):
        raise BadRequest(
            "command", "is required with rootfs: there is no image that sets a command"
        )
    if request.get("auto_remove") and setting(request, "restart_policy")["name"] != NO:
        raise BadRequest("auto_remove", "cannot be combined with a restart policy")
    has_ports = request.get("ports") or request.get("publish_all")
    if has_ports and request.get("network") in _WITHOUT_PORTS:
        hint = "omit the ports, or use another network"
        raise BadRequest("ports", f'network "{request["network"]}" cannot forward ports', hint)
    for name in ("hostname", "domainname"):
        if name in request and request.get("uts") == HOST:
            raise BadRequest(
                name, "cannot be combined with uts=host: the container has the host's name"
            )
    covered = {clean(mount["target"]) for mount in request.get("volumes") or ()}
    for index, tmpfs in enumerate(request.get("tmpfs") or ()):
        if clean(tmpfs["target"]) in covered:
            raise BadRequest(
                f"tmpfs[{index}].target", f'a volume is also mounted at "{tmpfs["target"]}"'
            )
    _check_limits(request)
    _check_sysctls(request)
    for index, volume in enumerate(request.get("volumes") or ()):
        source = volume.get("source")
        if source is not None and not os.path.exists(source):
            hint = "create it first, or use a named volume"
            raise BadRequest(f"volumes[{index}].source", f'"{source}" not found on this host', hint)
    return request


def _check_limits(spec: Spec) -> None:
    """Raise BadRequest if memory or CPU limits of a spec contradict each other."""
    swap, memory = spec.get("memory_swap"), spec.get("memory")
    together = "it limits memory and swap together"
    if swap is not None and memory is None:
        raise BadRequest("memory_swap", "requires a memory limit", together)
    if swap is not None and 0 <= swap < memory:
        raise BadRequest("memory_swap", "must not be less than the memory limit", together)
    if "cpus" in spec and ("cpu_quota" in spec or "cpu_period" in spec):
        raise BadRequest("cpus", "cannot be combined with cpu_quota and cpu_period")


def _check_sysctls(spec: Spec) -> None:
    """Raise BadRequest if a sysctl belongs to a namespace shared with the host."""
    shared = {"network": spec.get("network"), "ipc": spec.get("ipc")}
    for name in spec.get("sysctls") or ():
        kind = namespace_of(name)
        if shared[kind] == "host":
            message = (
                f'cannot set "{name}": the container shares the {kind} namespace with the host'
            )
            raise BadRequest("sysctls", message)


def changed_spec(spec: Spec, changes: object) -> Spec:
    """Return a copy of ``spec`` with the limits and restart policy in ``changes``.

    The caller has validated ``spec``, but not ``changes``.  Raises BadRequest with the JSON path of
    an invalid change.
    """
    checked = checks.check_object(changes, {name: _MEMBERS[name] for name in CHANGEABLE})
    if not checked:
        hint = f"supported: {', '.join(CHANGEABLE)}"
        raise BadRequest("", "update a container: no change given", hint)
    result = {**spec, **checked}
    _check_limits(result)
    if result.get("auto_remove") and setting(result, "restart_policy")["name"] != NO:
        raise BadRequest("restart_policy", "cannot be combined with auto_remove")
    return result


def networks_of(spec: Spec) -> list[str]:
    """Return the names of the networks that a container with this spec joins."""
    return [name for name, _ in net_option.parse(comma_separated(setting(spec, "network")))]


def setting(spec: Spec, name: str) -> Any:  # noqa: ANN401 - JSON
    """Return the member ``name`` of a valid spec, or else its default in ``DEFAULTS``."""
    return spec.get(name, DEFAULTS[name])


def _image(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    checks.nonempty(where, value)
    if value.startswith("-") or value.split() != [value]:
        raise BadRequest(where, f'invalid image reference "{value}"')


def check_platform(where: str, value: Any) -> None:  # noqa: ANN401
    """Raise BadRequest if ``value`` is not a platform such as ``linux/arm64``."""
    checks.nonempty(where, value)
    try:
        parse_platform(value)
    except ImageError as error:
        raise BadRequest(where, error.message, error.hint) from None


def _capability(where: str, value: object) -> None:
    checks.nonempty(where, value)
    if value != ALL and capability(str(value)) not in CAPABILITIES:
        raise BadRequest(
            where, f'unknown capability "{value}"', "use a name such as CAP_NET_RAW, or ALL"
        )


def capability(word: str) -> str:
    """Return a capability's full name: ``CAP_NET_RAW`` for ``net_raw`` or ``CAP_NET_RAW``."""
    name = word.upper()
    return name if name.startswith("CAP_") else f"CAP_{name}"


def check_signal(where: str, signal: str) -> str:
    """Return the full name of a signal: ``SIGTERM`` for ``15``.

    Raises BadRequest if the signal is unknown.
    """
    requests.signal(where, signal)
    return signal_name(signal)


def _network(where: str, value: Any) -> None:  # noqa: ANN401
    checks.nonempty(where, value)
    requests.networks(where, comma_separated(value))


def _name_servers(where: str, value: Any) -> None:  # noqa: ANN401
    checks.list_of(checks.nonempty)(where, value)
    requests.name_servers(where, [word for text in value for word in comma_separated(text)])


def _host(where: str, value: Any) -> None:  # noqa: ANN401
    members = {"name": requests.host_name, "address": ports.address}
    checks.object_of(members, "name", "address")(where, value)


def comma_separated(text: str) -> list[str]:
    """Return the parts of ``text`` between commas, without empty ones."""
    return [word for word in text.split(",") if word]


def check_volume_name(where: str, value: Any) -> None:  # noqa: ANN401
    """Raise BadRequest if ``value`` is not a valid name for a volume."""
    checks.nonempty(where, value)
    if set(value) - _LETTERS or value[0] in "._-" or len(value) > 128:
        hint = "use at most 128 letters, digits, _ . and -; begin with a letter or digit"
        raise BadRequest(where, f'invalid volume name "{value}"', hint)


def _volume(where: str, value: Any) -> None:  # noqa: ANN401
    members: checks.Members = {
        "source": checks.absolute_path,
        "name": check_volume_name,
        "target": volumes.target,
        "read_only": checks.flag,
        "no_copy": checks.flag,
        "propagation": _propagation,
    }
    checks.object_of(members, "target")(where, value)
    if "source" in value and "name" in value:
        raise BadRequest(where, "source and name are mutually exclusive")
    if value.get("no_copy") and "source" in value:
        raise BadRequest(
            f"{where}.no_copy", "cannot be combined with source: it applies only to volumes"
        )
    if "propagation" in value and "source" not in value:
        raise BadRequest(f"{where}.propagation", "requires source: it applies only to bind mounts")


def _propagation(where: str, value: Any) -> None:  # noqa: ANN401
    if value in ("shared", "rshared"):
        reason = "mounts made in a container cannot propagate to the host, because the monitor has"
        hint = f"supported: {', '.join(volumes.PROPAGATIONS)}; rslave propagates from the host"
        raise BadRequest(where, f'"{value}": {reason} its own mount namespace', hint)
    checks.one_of(*volumes.PROPAGATIONS)(where, value)


def _shared_volumes(where: str, value: Any) -> None:  # noqa: ANN401
    members: checks.Members = {"container": checks.nonempty, "read_only": checks.flag}
    checks.object_of(members, "container")(where, value)


def _device(where: str, value: Any) -> None:  # noqa: ANN401
    check_device(where, value)
    try:
        check_source(value["source"])
    except PodError as error:
        raise BadRequest(f"{where}.source", error.message) from None


def _policy(where: str, value: Any) -> None:  # noqa: ANN401
    names = checks.one_of(NO, ON_FAILURE, ALWAYS, UNLESS_STOPPED)
    members = {"name": names, "maximum": checks.number(0, 1 << 31)}
    checks.object_of(members, "name")(where, value)
    if value.get("maximum") and value["name"] != ON_FAILURE:
        raise BadRequest(f"{where}.maximum", f"is valid only with the policy {ON_FAILURE}")


_MEMBERS: checks.Members = {
    "name": check_name,
    "image": _image,
    "rootfs": checks.absolute_path,
    "command": checks.list_of(checks.string),
    "entrypoint": checks.list_of(checks.string),
    "env": checks.strings_by_name,
    "working_dir": checks.absolute_path,
    "user": checks.nonempty,
    "group": checks.nonempty,
    "volumes": checks.list_of(_volume),
    "volumes_from": checks.list_of(_shared_volumes),
    "ports": checks.list_of(
        checks.object_of(
            {
                "host_ip": ports.address,
                "host_port": ports.PORT,
                "port": ports.PORT,
                "protocol": checks.one_of("tcp", "udp"),
            },
            "host_port",
            "port",
        )
    ),
    "network": _network,
    "network_aliases": checks.list_of(requests.network_name),
    "publish_all": checks.flag,
    "hostname": requests.host_name,
    "dns": _name_servers,
    "dns_search": checks.list_of(checks.nonempty),
    "dns_options": checks.list_of(checks.nonempty),
    "hosts": checks.list_of(_host),
    "ipc": checks.one_of(*IPC_MODES),
    "pid": checks.one_of("private", HOST),
    "uts": checks.one_of("private", HOST),
    "domainname": requests.host_name,
    "shm_size": requests.size,
    "memory": requests.size,
    "cpus": checks.number(*(limit / 1000 for limit in CPU_RANGE), whole=False),
    "cpu_shares": checks.number(*SHARES_RANGE),
    "pids_limit": requests.PIDS,
    "oom_score_adj": checks.number(-1000, 1000),
    "group_add": checks.list_of(user_ids.ID),
    "cap_add": checks.list_of(_capability),
    "cap_drop": checks.list_of(_capability),
    "no_new_privileges": checks.flag,
    "seccomp": checks.one_of(UNCONFINED),
    "ulimits": checks.list_of(check_ulimit),
    "devices": checks.list_of(_device),
    "privileged": checks.flag,
    "platform": check_platform,
    "memory_swap": requests.swap_size,
    "memory_reservation": requests.size,
    "cpu_quota": checks.number(*QUOTA_RANGE),
    "cpu_period": checks.number(*PERIOD_RANGE),
    "cpuset_cpus": check_cpu_list,
    "cpuset_mems": check_cpu_list,
    "sysctls": check_sysctls,
    "tmpfs": checks.list_of(check_tmpfs),
    "read_only": checks.flag,
    "tty": checks.flag,
    "stdin": checks.flag,
    "labels": checks.strings_by_name,
    "restart_policy": _policy,
    "stop_signal": requests.signal,
    "stop_timeout": checks.seconds,
    "auto_remove": checks.flag,
    "pull_policy": checks.one_of(*PULL_POLICIES),
    "insecure": checks.list_of(checks.one_of(*INSECURE)),
}
