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
from collections.abc import Callable
from typing import Any

from ociruntime.base.errors import BadRequest, UsageError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.manager.containers.names import check_name
from ociruntime.pods.manifest.signal_names import signal_name

Check = Callable[[str, Any], None]

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


def checked(spec: object) -> dict[str, Any]:
    """Check a client's spec and return it without its null members.

    Raises BadRequest with the JSON path.
    """
    if not isinstance(spec, dict):
        raise BadRequest("", "the spec of the container must be a JSON object")
    given = {name: value for name, value in spec.items() if value is not None}
    for name, value in given.items():
        check = _MEMBERS.get(name)
        if check is None:
            raise BadRequest(str(name), "unknown member", ", ".join(_MEMBERS))
        check(name, value)
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


def _string(where: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadRequest(where, "must be a string")
    if "\0" in value:
        raise BadRequest(where, "must not contain NUL")


def _name(where: str, value: object) -> None:
    check_name(value, where)


def _nonempty(where: str, value: object) -> None:
    _string(where, value)
    if not value:
        raise BadRequest(where, "must not be empty")


def _image(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    _nonempty(where, value)
    if value.startswith("-") or value.split() != [value]:
        raise BadRequest(where, f'"{value}" is not an image reference')


def _path(where: str, value: Any) -> None:  # noqa: ANN401
    _nonempty(where, value)
    if not value.startswith("/"):
        raise BadRequest(where, f'"{value}" is not an absolute path')


def _flag(where: str, value: object) -> None:
    if not isinstance(value, bool):
        raise BadRequest(where, "must be true or false")


def _number(least: float, most: float, whole: bool = True) -> Check:
    def check(where: str, value: object) -> None:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise BadRequest(where, "must be an integer" if whole else "must be a number")
        if not least <= value <= most:
            raise BadRequest(where, f"{value} is not between {least} and {most}")

    return check


def _list_of(check: Check) -> Check:
    def check_all(where: str, value: object) -> None:
        if not isinstance(value, list):
            raise BadRequest(where, "must be a list")
        for index, one in enumerate(value):
            check(f"{where}[{index}]", one)

    return check_all


def _one_of(*values: str) -> Check:
    def check(where: str, value: object) -> None:
        if value not in values:
            raise BadRequest(where, f"unknown value {value!r}", ", ".join(values))

    return check


def _object(members: dict[str, Check], *required: str) -> Check:
    def check(where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise BadRequest(where, "must be an object")
        for name, one in value.items():
            if name not in members:
                raise BadRequest(f"{where}.{name}", "unknown member", ", ".join(members))
            members[name](f"{where}.{name}", one)
        for name in required:
            if name not in value:
                raise BadRequest(f"{where}.{name}", "required")

    return check


def _table(where: str, value: object) -> None:
    """Check an object of strings whose names can be environment variables or labels."""
    if not isinstance(value, dict):
        raise BadRequest(where, "must be an object")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise BadRequest(where, f"{name!r} is not a valid name")
        _string(f"{where}.{name}", text)


def _capability(where: str, value: object) -> None:
    _nonempty(where, value)
    if value != ALL and capability(str(value)) not in CAPABILITIES:
        raise BadRequest(where, f'unknown capability "{value}"', "as in CAP_NET_RAW, or ALL")


def capability(word: str) -> str:
    """Return the full name of a capability: ``CAP_NET_RAW`` for ``net_raw``."""
    name = word.upper()
    return name if name.startswith("CAP_") else f"CAP_{name}"


def _signal(where: str, value: object) -> None:
    _nonempty(where, value)
    checked_signal(where, str(value))


def checked_signal(where: str, signal: str) -> str:
    """Return the name of a signal, given as a name or number.  Raises BadRequest."""
    try:
        return signal_name(signal)
    except UsageError as error:
        raise BadRequest(where, error.message, error.hint) from None


def _volume_name(where: str, value: Any) -> None:  # noqa: ANN401
    _nonempty(where, value)
    if set(value) - _LETTERS or value[0] in "._-" or len(value) > 128:
        hint = "letters and digits, after the first also _ . -, at most 128"
        raise BadRequest(where, f'"{value}" is not a valid volume name', hint)


def _volume_path(where: str, value: Any) -> None:  # noqa: ANN401
    _path(where, value)
    if "," in value:
        raise BadRequest(where, "the path must not contain a comma")


def _volume(where: str, value: Any) -> None:  # noqa: ANN401
    members: dict[str, Check] = {
        "source": _volume_path,
        "name": _volume_name,
        "target": _volume_path,
        "read_only": _flag,
    }
    _object(members, "target")(where, value)
    if ("source" in value) == ("name" in value):
        raise BadRequest(where, "either source or name is required")


def _policy(where: str, value: Any) -> None:  # noqa: ANN401
    _object(
        {"name": _one_of(NO, ON_FAILURE, ALWAYS, UNLESS_STOPPED), "maximum": _number(0, 1 << 31)},
        "name",
    )(where, value)
    if value.get("maximum") and value["name"] != ON_FAILURE:
        raise BadRequest(f"{where}.maximum", f"only valid with {ON_FAILURE}")


_PORT = _number(1, 65535)
_MEMBERS: dict[str, Check] = {
    "name": _name,
    "image": _image,
    "rootfs": _path,
    "command": _list_of(_string),
    "entrypoint": _list_of(_string),
    "env": _table,
    "working_dir": _path,
    "user": _nonempty,
    "group": _nonempty,
    "volumes": _list_of(_volume),
    "ports": _list_of(
        _object(
            {
                "host_ip": _string,
                "host_port": _PORT,
                "port": _PORT,
                "protocol": _one_of("tcp", "udp"),
            },
            "host_port",
            "port",
        )
    ),
    "network": _nonempty,
    "hostname": _nonempty,
    "dns": _list_of(_nonempty),
    "memory": _number(4096, _MOST_MEMORY),
    "cpus": _number(0.001, 1 << 20, whole=False),
    "pids_limit": _number(1, 1 << 22),
    "cap_add": _list_of(_capability),
    "cap_drop": _list_of(_capability),
    "read_only": _flag,
    "tty": _flag,
    "stdin": _flag,
    "labels": _table,
    "restart_policy": _policy,
    "stop_signal": _signal,
    "stop_timeout": _number(0, 1_000_000, whole=False),
    "auto_remove": _flag,
    "pull_policy": _one_of(*PULL_POLICIES),
    "insecure": _list_of(_one_of(*INSECURE)),
}
