"""The request for a new container (the body of ``POST /v1/containers``): a container's spec.

It is checked by a table, and translated into the requests that ``ocipod`` reads.

    {"name", "image" or "rootfs", "command": [...], "entrypoint": [...], "env": {NAME: VALUE},
     "working_dir", "user", "group", "volumes": [{"source" or "name", "target", "read_only"}],
     "ports": [{"host_ip", "host_port", "port", "protocol"}], "publish_all", "network",
     "network_aliases": [...], "hostname", "dns": [...], "dns_search": [...],
     "dns_options": [...], "hosts": [{"name", "address"}], "ipc",
     "shm_size": bytes, "memory": bytes, "cpus", "cpu_shares", "pids_limit", "oom_score_adj",
     "group_add": [gid], "cap_add": [...], "cap_drop": [...], "no_new_privileges", "seccomp",
     "read_only", "tty", "stdin", "labels": {NAME: VALUE}, "restart_policy": {"name", "maximum"},
     "stop_signal", "stop_timeout", "auto_remove", "pull_policy", "insecure": [...]}

Only ``image`` or ``rootfs`` is required.  Unknown members are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, ImageError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.commandline.signal_names import signal_name
from ociruntime.commandline.sizes import CPU_RANGE
from ociruntime.images.model.reference import parse
from ociruntime.manager.containers.names import check_name
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.bundle.app_config import CAPABILITIES as DEFAULT_CAPABILITIES
from ociruntime.pods.manifest import request as requests
from ociruntime.pods.manifest import volumes
from ociruntime.pods.manifest.isolators import SHARES_RANGE
from ociruntime.pods.manifest.request import AppRequest, SandboxRequest
from ociruntime.pods.manifest.seccomp import EMPTY
from ociruntime.pods.net import choice, resolver

Spec = dict[str, Any]

NO = "no"
ON_FAILURE = "on-failure"
ALWAYS = "always"
UNLESS_STOPPED = "unless-stopped"
# Pull policy -> that of `ocipod fetch`.
PULL_POLICIES = {"missing": "new", "always": "update", "never": "never"}
INSECURE = ("image", "tls", "http", "pubkey", "capabilities", "paths", "seccomp")
ALL = "ALL"
ANNOTATION = "ocid/container"
_SHORT = 12  # digits of the id that make the default host name
# Member of the spec -> field of the app's request where the value is passed on unchanged.
_UNCHANGED = {
    "working_dir": "working_dir",
    "memory": "memory",
    "pids_limit": "pids",
    "stop_signal": "stop_signal",
    "read_only": "readonly_rootfs",
    "cpu_shares": "cpu_shares",
    "oom_score_adj": "oom_score_adj",
    "group_add": "supplementary_gids",
    "no_new_privileges": "no_new_privileges",
}
# The same for the request of its pod.
_UNCHANGED_FOR_POD = {
    "dns_search": "dns_search",
    "dns_options": "dns_opt",
    "shm_size": "shm_size",
}
UNCONFINED = "unconfined"
_IPC = {"private": "private", "host": "parent"}
_NO_FILTER = {"mode": "remove", "set": [EMPTY]}
# Members that a spec may leave out.
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
    """Check a client's spec and return it without its null members.

    Raises BadRequest with the JSON path.
    """
    given = checks.check_object(spec, _MEMBERS, "the spec of the container")
    if ("image" in given) == ("rootfs" in given):
        raise BadRequest("image", "either image or rootfs is required")
    if "rootfs" in given and not given.get("command") and not given.get("entrypoint"):
        raise BadRequest("command", "required with rootfs")
    if given.get("auto_remove") and setting(given, "restart_policy")["name"] != NO:
        raise BadRequest("auto_remove", "cannot be combined with a restart policy")
    has_ports = given.get("ports") or given.get("publish_all")
    if has_ports and given.get("network") in _WITHOUT_PORTS:
        hint = "leave out the ports, or use another network"
        raise BadRequest("ports", f"network {given['network']} cannot forward ports", hint)
    for index, volume in enumerate(given.get("volumes") or ()):
        source = volume.get("source")
        if source is not None and not os.path.exists(source):
            hint = "create it first, or use a named volume"
            raise BadRequest(f"volumes[{index}].source", f"{source} not found on this host", hint)
    return given


def networks_of(spec: Spec) -> list[str]:
    """Return the names of the networks that the container joins."""
    return [name for name, _ in choice.parse(_parts(setting(spec, "network")))]


def setting(spec: Spec, name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a member of a checked spec, or its default."""
    return spec.get(name, DEFAULTS[name])


def _image(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    checks.nonempty(where, value)
    if value.startswith("-") or value.split() != [value]:
        raise BadRequest(where, f'"{value}" is not an image reference')


def _capability(where: str, value: object) -> None:
    checks.nonempty(where, value)
    if value != ALL and capability(str(value)) not in CAPABILITIES:
        raise BadRequest(where, f'unknown capability "{value}"', "as in CAP_NET_RAW, or ALL")


def capability(word: str) -> str:
    """Return the full name of a capability: ``CAP_NET_RAW`` for ``net_raw``."""
    name = word.upper()
    return name if name.startswith("CAP_") else f"CAP_{name}"


def check_signal(where: str, signal: str) -> str:
    """Return the name of a signal, given as a name or number.  Raises BadRequest."""
    requests.signal(where, signal)
    return signal_name(signal)


def _network(where: str, value: Any) -> None:  # noqa: ANN401
    checks.nonempty(where, value)
    requests.networks(where, _parts(value))


def _name_servers(where: str, value: Any) -> None:  # noqa: ANN401
    checks.list_of(checks.nonempty)(where, value)
    requests.name_servers(where, [word for text in value for word in _parts(text)])


def _host(where: str, value: Any) -> None:  # noqa: ANN401
    members = {"name": requests.host_name, "address": volumes.address}
    checks.object_of(members, "name", "address")(where, value)


def _parts(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def check_volume_name(where: str, value: Any) -> None:  # noqa: ANN401
    """Check the name of a named volume.  Raises BadRequest."""
    checks.nonempty(where, value)
    if set(value) - _LETTERS or value[0] in "._-" or len(value) > 128:
        hint = "letters and digits, after the first also _ . -, at most 128"
        raise BadRequest(where, f'"{value}" is not a valid volume name', hint)


def _volume(where: str, value: Any) -> None:  # noqa: ANN401
    members: checks.Members = {
        "source": checks.absolute_path,
        "name": check_volume_name,
        "target": volumes.target,
        "read_only": checks.flag,
    }
    checks.object_of(members, "target")(where, value)
    if ("source" in value) == ("name" in value):
        raise BadRequest(where, "either source or name is required")


def _policy(where: str, value: Any) -> None:  # noqa: ANN401
    names = checks.one_of(NO, ON_FAILURE, ALWAYS, UNLESS_STOPPED)
    members = {"name": names, "maximum": checks.number(0, 1 << 31)}
    checks.object_of(members, "name")(where, value)
    if value.get("maximum") and value["name"] != ON_FAILURE:
        raise BadRequest(f"{where}.maximum", f"only valid with {ON_FAILURE}")


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
    "ports": checks.list_of(
        checks.object_of(
            {
                "host_ip": volumes.address,
                "host_port": volumes.PORT,
                "port": volumes.PORT,
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
    "ipc": checks.one_of(*_IPC),
    "shm_size": requests.size,
    "memory": requests.size,
    "cpus": checks.number(*(limit / 1000 for limit in CPU_RANGE), whole=False),
    "cpu_shares": checks.number(*SHARES_RANGE),
    "pids_limit": requests.PIDS,
    "oom_score_adj": checks.number(-1000, 1000),
    "group_add": checks.list_of(volumes.ID),
    "cap_add": checks.list_of(_capability),
    "cap_drop": checks.list_of(_capability),
    "no_new_privileges": checks.flag,
    "seccomp": checks.one_of(UNCONFINED),
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


# --- translation ---


def fetch_args(spec: Spec) -> list[str]:
    """Return the arguments that fetch the container's image and print its full id."""
    if "rootfs" in spec:
        # The directory may have changed since it was last made an image of.
        return ["fetch", "--full", "--pull-policy=update", f"dir:{spec['rootfs']}"]
    policy = PULL_POLICIES[setting(spec, "pull_policy")]
    return ["fetch", "--full", f"--pull-policy={policy}", spec["image"]]


def stored_args(spec: Spec) -> list[str]:
    """Return the arguments that look for the container's image in the store alone.

    Empty if the policy or a local file means that ``fetch`` would read the image again anyway.
    """
    policy = setting(spec, "pull_policy")
    if "rootfs" in spec or policy == "always" or (policy != "never" and _is_local(spec["image"])):
        return []
    return ["fetch", "--full", "--pull-policy=never", spec["image"]]


def _is_local(image: str) -> bool:
    try:
        return parse(image).is_local
    except ImageError:
        return False  # ocipod refuses it


def global_args(
    spec: Spec, insecure: tuple[str, ...] = (), allowed: tuple[str, ...] = ()
) -> list[str]:
    """Return the global options, which precede the command.

    ``insecure`` are the checks disabled for every container, ``allowed`` those that a client may
    disable.  They are filtered here again: the container may have been made under a daemon that
    allowed more than this one does.
    """
    checks = sorted({*insecure, *(set(spec.get("insecure") or ()) & set(allowed))})
    return [f"--insecure-options={','.join(checks)}"] if checks else []


def pod_requests(
    spec: Spec, container_id: str, image_id: str, volume: Callable[[str], str]
) -> tuple[SandboxRequest, AppRequest]:
    """Return the requests for the container's pod and for its app.

    ``volume`` maps the name of a volume to its directory.
    """
    host_name = _host_name(spec, container_id)
    return _sandbox(spec, container_id, host_name), _app(spec, image_id, host_name, volume)


def _host_name(spec: Spec, container_id: str) -> str:
    """Return the container's hostname; the default is the host's if they share the network."""
    is_shared = setting(spec, "network") == "host"
    default = os.uname().nodename if is_shared else container_id[:_SHORT]
    return str(spec.get("hostname") or default)


def _sandbox(spec: Spec, container_id: str, host_name: str) -> SandboxRequest:
    ports = [
        {
            "name": f"{port['port']}-{port.get('protocol') or 'tcp'}",
            "hostPort": port["host_port"],
            "hostIP": port.get("host_ip") or "",
        }
        for port in spec.get("ports") or ()
    ]
    return SandboxRequest(
        detach=True,
        keep=True,
        annotation={ANNOTATION: container_id},
        net=_parts(setting(spec, "network")),
        net_name=_names_on_networks(spec, container_id),
        hostname=host_name,
        dns=[word for text in spec.get("dns") or () for word in _parts(text)],
        hosts_entry=[f"{one['address']}={one['name']}" for one in spec.get("hosts") or ()],
        ipc=_IPC[spec["ipc"]] if "ipc" in spec else "auto",
        port=ports,
        **{field: spec[member] for member, field in _UNCHANGED_FOR_POD.items() if member in spec},
    )


def _names_on_networks(spec: Spec, container_id: str) -> list[str]:
    """Return the names by which other containers find this one: its name, short id and aliases.

    A name of a container that is no host name is left out.
    """
    if networks_of(spec) in WITHOUT_NAMES:
        return []
    name = spec.get("name") or ""
    own = [name] if resolver.is_pod_name(name) else []
    return list(dict.fromkeys([*own, container_id[:_SHORT], *spec.get("network_aliases", ())]))


def _app(spec: Spec, image_id: str, host_name: str, volume: Callable[[str], str]) -> AppRequest:
    user, _, group = str(spec.get("user") or "").partition(":")
    program, arguments = _program(spec)
    app = AppRequest(
        image=image_id,
        name=APP,
        exec=program,
        arguments=arguments,
        user=user or None,
        group=spec.get("group") or group,
        environment={"HOSTNAME": host_name, **(spec.get("env") or {})},
        caps_retain=_capabilities(spec),
        seccomp=_NO_FILTER if spec.get("seccomp") == UNCONFINED else None,
        cpu=round(spec["cpus"] * 1000) if "cpus" in spec else None,
        mnt_volume=[
            {
                "name": f"volume-{number}",
                "kind": "host",
                "source": one.get("source") or volume(one["name"]),
                "target": one["target"],
                **({"readOnly": True} if one.get("read_only") else {}),
            }
            for number, one in enumerate(spec.get("volumes") or ())
        ],
        **{field: spec[member] for member, field in _UNCHANGED.items() if member in spec},
    )
    if spec.get("tty"):
        app.stdin = app.stdout = app.stderr = "tty"
    elif spec.get("stdin"):
        app.stdin = "stream"
    return app


def _capabilities(spec: Spec) -> list[str] | None:
    added, dropped = spec.get("cap_add") or [], spec.get("cap_drop") or []
    if not added and not dropped:
        return None
    retained = set() if ALL in dropped else set(DEFAULT_CAPABILITIES)
    if ALL in added:
        retained = set(CAPABILITIES)
    retained |= {capability(one) for one in added if one != ALL}
    retained -= {capability(one) for one in dropped if one != ALL}
    return sorted(retained)


def _program(spec: Spec) -> tuple[str | None, list[str] | None]:
    """Return the program that replaces the image's, and the arguments; None keeps the image's."""
    entry, command = spec.get("entrypoint"), spec.get("command")
    if entry is None and "rootfs" in spec:
        entry, command = command, None
    if entry:
        return entry[0], [*entry[1:], *(command or ())]
    if entry is not None and command:  # an empty entrypoint removes the image's
        return command[0], command[1:]
    return None, command or None
