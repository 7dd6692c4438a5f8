"""The request for a new container (the body of ``POST /v1/containers``): a container's spec.

It is checked by a table, and translated into the arguments of ``ocipod``.

    {"name", "image" or "rootfs", "command": [...], "entrypoint": [...], "env": {NAME: VALUE},
     "working_dir", "user", "group", "volumes": [{"source" or "name", "target", "read_only"}],
     "ports": [{"host_ip", "host_port", "port", "protocol"}], "network", "hostname", "dns": [...],
     "memory": bytes, "cpus", "pids_limit", "cap_add": [...], "cap_drop": [...], "read_only", "tty",
     "stdin", "labels": {NAME: VALUE}, "restart_policy": {"name", "maximum"}, "stop_signal",
     "stop_timeout", "auto_remove", "pull_policy", "insecure": [...]}

Only ``image`` or ``rootfs`` is required.  Unknown members are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, ImageError, UsageError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.commandline.signal_names import signal_name
from ociruntime.images.model.reference import parse
from ociruntime.manager.containers.names import check_name
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.bundle.app_config import CAPABILITIES as DEFAULT_CAPABILITIES

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
# (member of the spec, option of `app add`) where the value is passed on unchanged.
_UNCHANGED = (
    ("working_dir", "working-dir"),
    ("memory", "memory"),
    ("cpus", "cpu"),
    ("pids_limit", "pids"),
    ("stop_signal", "stop-signal"),
)
# Members that a spec may leave out.
DEFAULTS: dict[str, Any] = {
    "network": "default",
    "pull_policy": "missing",
    "restart_policy": {"name": NO},
    "stop_signal": "SIGTERM",
    "stop_timeout": 10,  # seconds
}
_WITHOUT_PORTS = ("none", "host")
_MOST_MEMORY = 1 << 62
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
    if given.get("ports") and given.get("network") in _WITHOUT_PORTS:
        hint = "leave out the ports, or use another network"
        raise BadRequest("ports", f"network {given['network']} cannot forward ports", hint)
    for index, volume in enumerate(given.get("volumes") or ()):
        source = volume.get("source")
        if source is not None and not os.path.exists(source):
            hint = "create it first, or use a named volume"
            raise BadRequest(f"volumes[{index}].source", f"{source} not found on this host", hint)
    return given


def setting(spec: Spec, name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a member of a checked spec, or its default."""
    return spec.get(name, DEFAULTS[name])


def _image(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    checks.nonempty(where, value)
    if value.startswith("-") or value.split() != [value]:
        raise BadRequest(where, f'"{value}" is not an image reference')


def _path(where: str, value: Any) -> None:  # noqa: ANN401
    checks.nonempty(where, value)
    if not value.startswith("/"):
        raise BadRequest(where, f'"{value}" is not an absolute path')


def _capability(where: str, value: object) -> None:
    checks.nonempty(where, value)
    if value != ALL and capability(str(value)) not in CAPABILITIES:
        raise BadRequest(where, f'unknown capability "{value}"', "as in CAP_NET_RAW, or ALL")


def capability(word: str) -> str:
    """Return the full name of a capability: ``CAP_NET_RAW`` for ``net_raw``."""
    name = word.upper()
    return name if name.startswith("CAP_") else f"CAP_{name}"


def _signal(where: str, value: object) -> None:
    checks.nonempty(where, value)
    check_signal(where, str(value))


def check_signal(where: str, signal: str) -> str:
    """Return the name of a signal, given as a name or number.  Raises BadRequest."""
    try:
        return signal_name(signal)
    except UsageError as error:
        raise BadRequest(where, error.message, error.hint) from None


def _volume_name(where: str, value: Any) -> None:  # noqa: ANN401
    checks.nonempty(where, value)
    if set(value) - _LETTERS or value[0] in "._-" or len(value) > 128:
        hint = "letters and digits, after the first also _ . -, at most 128"
        raise BadRequest(where, f'"{value}" is not a valid volume name', hint)


def _volume_path(where: str, value: Any) -> None:  # noqa: ANN401
    _path(where, value)
    if "," in value:
        raise BadRequest(where, "the path must not contain a comma")


def _volume(where: str, value: Any) -> None:  # noqa: ANN401
    members: checks.Members = {
        "source": _volume_path,
        "name": _volume_name,
        "target": _volume_path,
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


_PORT = checks.number(1, 65535)
_MEMBERS: checks.Members = {
    "name": check_name,
    "image": _image,
    "rootfs": _path,
    "command": checks.list_of(checks.string),
    "entrypoint": checks.list_of(checks.string),
    "env": checks.strings_by_name,
    "working_dir": _path,
    "user": checks.nonempty,
    "group": checks.nonempty,
    "volumes": checks.list_of(_volume),
    "ports": checks.list_of(
        checks.object_of(
            {
                "host_ip": checks.string,
                "host_port": _PORT,
                "port": _PORT,
                "protocol": checks.one_of("tcp", "udp"),
            },
            "host_port",
            "port",
        )
    ),
    "network": checks.nonempty,
    "hostname": checks.nonempty,
    "dns": checks.list_of(checks.nonempty),
    "memory": checks.number(4096, _MOST_MEMORY),
    "cpus": checks.number(0.001, 1 << 20, whole=False),
    "pids_limit": checks.number(1, 1 << 22),
    "cap_add": checks.list_of(_capability),
    "cap_drop": checks.list_of(_capability),
    "read_only": checks.flag,
    "tty": checks.flag,
    "stdin": checks.flag,
    "labels": checks.strings_by_name,
    "restart_policy": _policy,
    "stop_signal": _signal,
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


def pod_args(
    spec: Spec, container_id: str, image_id: str, volume: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Return the arguments of ``app sandbox``, and those of ``app add`` after the pod's UUID.

    ``volume`` maps the name of a volume to its directory.
    """
    host_name = _host_name(spec, container_id)
    return _sandbox_args(spec, container_id, host_name), _add_args(
        spec, image_id, host_name, volume
    )


def _host_name(spec: Spec, container_id: str) -> str:
    """Return the container's hostname; the default is the host's if they share the network."""
    if setting(spec, "network") == "host":
        return str(spec.get("hostname") or os.uname().nodename)
    return str(spec.get("hostname") or container_id[:_SHORT])


def _sandbox_args(spec: Spec, container_id: str, host_name: str) -> list[str]:
    args = [
        *("app", "sandbox", "--detach", "--keep", "--on-failure=keep"),
        f"--annotation={ANNOTATION}={container_id}",
        f"--net={setting(spec, 'network')}",
    ]
    args.append(f"--hostname={host_name}")
    args += [f"--dns={one}" for one in spec.get("dns") or ()]
    for number, port in enumerate(spec.get("ports") or ()):
        protocol = port.get("protocol") or "tcp"
        address = port.get("host_ip") or ""
        if ":" in address:
            address = f"[{address}]"
        ends = f"{port['port']}:{address}:{port['host_port']}"
        args.append(f"--port=port-{number}:{protocol}:{ends}")
    return args


def _add_args(spec: Spec, image_id: str, host_name: str, volume: Callable[[str], str]) -> list[str]:
    args = [image_id, f"--name={APP}"]
    variables = {"HOSTNAME": host_name, **(spec.get("env") or {})}
    args += [f"--environment={name}={value}" for name, value in variables.items()]
    args += [f"--{option}={spec[member]}" for member, option in _UNCHANGED if member in spec]
    args += _account_args(spec)
    args += _capability_args(spec)
    args += _stream_args(spec)
    if spec.get("read_only"):
        args.append("--readonly-rootfs")
    for number, one in enumerate(spec.get("volumes") or ()):
        source = one.get("source") or volume(one["name"])
        read_only = ",readOnly=true" if one.get("read_only") else ""
        args.append(
            f"--mnt-volume=name=volume-{number},kind=host,source={source},"
            f"target={one['target']}{read_only}"
        )
    return args + _program_args(spec)


def _account_args(spec: Spec) -> list[str]:
    user, _, group = str(spec.get("user") or "").partition(":")
    group = spec.get("group") or group
    args = [f"--user={user}"] if user else []
    return [*args, f"--group={group}"] if group else args


def _capability_args(spec: Spec) -> list[str]:
    added, dropped = spec.get("cap_add") or [], spec.get("cap_drop") or []
    if not added and not dropped:
        return []
    retained = set() if ALL in dropped else set(DEFAULT_CAPABILITIES)
    if ALL in added:
        retained = set(CAPABILITIES)
    retained |= {capability(one) for one in added if one != ALL}
    retained -= {capability(one) for one in dropped if one != ALL}
    return [f"--caps-retain={','.join(sorted(retained))}"]


def _stream_args(spec: Spec) -> list[str]:
    if spec.get("tty"):
        return ["--stdin=tty", "--stdout=tty", "--stderr=tty"]
    return ["--stdin=stream"] if spec.get("stdin") else []


def _program_args(spec: Spec) -> list[str]:
    entry, command = spec.get("entrypoint"), spec.get("command")
    if entry is None and "rootfs" in spec:
        entry, command = command, None
    if entry:
        return [f"--exec={entry[0]}", "--", *entry[1:], *(command or ())]
    if entry is not None and command:  # an empty entrypoint removes the image's
        return [f"--exec={command[0]}", "--", *command[1:]]
    return ["--", *command] if command else []
