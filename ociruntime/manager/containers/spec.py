"""The request for a new container (the body of ``POST /v1/containers``), checked by a table.

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
from typing import Any

from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.manager.containers import checks
from ociruntime.manager.containers.names import check_name
from ociruntime.pods.manifest.signal_names import signal_name

NO = "no"
ON_FAILURE = "on-failure"
ALWAYS = "always"
UNLESS_STOPPED = "unless-stopped"
# Pull policy -> that of `ocipod fetch`.
PULL_POLICIES = {"missing": "new", "always": "update", "never": "never"}
INSECURE = ("image", "tls", "http", "pubkey", "capabilities", "paths", "seccomp")
ALL = "ALL"
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


def check_spec(spec: object) -> dict[str, Any]:
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


def setting(spec: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
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
