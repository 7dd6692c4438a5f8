"""Translation of a container's spec into the arguments of ``ocipod``; pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ociruntime.base.linux import CAPABILITIES as ALL_CAPABILITIES
from ociruntime.manager.containers.pod_status import APP
from ociruntime.manager.containers.spec import ALL, PULL_POLICIES, capability, setting
from ociruntime.pods.bundle.app_config import CAPABILITIES

Spec = dict[str, Any]

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


def fetch_args(spec: Spec) -> list[str]:
    """Return the arguments that fetch the container's image and print its full id."""
    if "rootfs" in spec:
        # The directory may have changed since it was last made an image of.
        return ["fetch", "--full", "--pull-policy=update", f"dir:{spec['rootfs']}"]
    policy = PULL_POLICIES[setting(spec, "pull_policy")]
    return ["fetch", "--full", f"--pull-policy={policy}", spec["image"]]


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


def spec_args(
    spec: Spec, container_id: str, image_id: str, volume: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Return the arguments of ``app sandbox``, and those of ``app add`` after the pod's UUID.

    ``volume`` maps the name of a volume to its directory.
    """
    return _sandbox_args(spec, container_id), _add_args(spec, image_id, volume)


def _sandbox_args(spec: Spec, container_id: str) -> list[str]:
    args = [
        *("app", "sandbox", "--detach", "--keep", "--on-failure=keep"),
        f"--annotation={ANNOTATION}={container_id}",
        f"--net={setting(spec, 'network')}",
    ]
    host_name = spec.get("hostname") or container_id[:_SHORT]
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


def _add_args(spec: Spec, image_id: str, volume: Callable[[str], str]) -> list[str]:
    args = [image_id, f"--name={APP}"]
    args += [f"--environment={name}={value}" for name, value in (spec.get("env") or {}).items()]
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
    retained = set() if ALL in dropped else set(CAPABILITIES)
    if ALL in added:
        retained = set(ALL_CAPABILITIES)
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
