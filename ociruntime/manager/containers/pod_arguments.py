"""From what is asked for to words of ``ocipod``; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ociruntime.base.linux import CAPABILITIES as ALL_CAPABILITIES
from ociruntime.manager.containers.pod_status import APP
from ociruntime.manager.containers.spec import ALL, capability
from ociruntime.pods.bundle.app_config import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    Spec = dict[str, Any]

ANNOTATION = "ocid/container"
_SHORT = 12  # digits of an id that are the host name
_PULL = {"missing": "new", "always": "update", "never": "never"}
# Member -> option, of those that are just handed on.
_TEXTS = (
    ("working_dir", "working-dir"),
    ("memory", "memory"),
    ("cpus", "cpu"),
    ("pids_limit", "pids"),
    ("stop_signal", "stop-signal"),
)


def fetch_words(spec: Spec) -> list[str]:
    """``fetch`` of the image: prints its whole id."""
    if "rootfs" in spec:
        # Whatever has been changed in it since.
        return ["fetch", "--full", "--pull-policy=update", f"dir:{spec['rootfs']}"]
    policy = _PULL[spec.get("pull_policy") or "missing"]
    return ["fetch", "--full", f"--pull-policy={policy}", spec["image"]]


def global_words(
    spec: Spec, insecure: tuple[str, ...] = (), allowed: tuple[str, ...] = ()
) -> list[str]:
    """Return the options before each command.

    ``insecure`` are the checks left out for every container, ``allowed`` those that a client may
    leave out. The daemon that made a container may have allowed more than this one does.
    """
    words = sorted({*insecure, *(set(spec.get("insecure") or ()) & set(allowed))})
    return [f"--insecure-options={','.join(words)}"] if words else []


def spec_words(
    spec: Spec,
    container_id: str,
    image_id: str,
    volume: Callable[[str], str],
) -> tuple[list[str], list[str]]:
    """The words of ``app sandbox`` and, behind the pod's UUID, of ``app add``.

    ``volume`` gives the directory of a volume with a name.
    """
    return _sandbox_words(spec, container_id), _add_words(spec, image_id, volume)


def _sandbox_words(spec: Spec, container_id: str) -> list[str]:
    words = [
        *("app", "sandbox", "--detach", "--keep", "--on-failure=keep"),
        f"--annotation={ANNOTATION}={container_id}",
        f"--net={spec.get('network') or 'default'}",
    ]
    host_name = spec.get("hostname") or container_id[:_SHORT]
    words.append(f"--hostname={host_name}")
    words += [f"--dns={one}" for one in spec.get("dns") or ()]
    for number, port in enumerate(spec.get("ports") or ()):
        protocol = port.get("protocol") or "tcp"
        address = port.get("host_ip") or ""
        if ":" in address:
            address = f"[{address}]"
        ends = f"{port['port']}:{address}:{port['host_port']}"
        words.append(f"--port=port-{number}:{protocol}:{ends}")
    return words


def _add_words(spec: Spec, image_id: str, volume: Callable[[str], str]) -> list[str]:
    words = [image_id, f"--name={APP}"]
    words += [f"--environment={name}={value}" for name, value in (spec.get("env") or {}).items()]
    words += [f"--{option}={spec[member]}" for member, option in _TEXTS if member in spec]
    words += _account_words(spec)
    words += _capability_words(spec)
    words += _stream_words(spec)
    if spec.get("read_only"):
        words.append("--readonly-rootfs")
    for number, one in enumerate(spec.get("volumes") or ()):
        source = one.get("source") or volume(one["name"])
        read_only = ",readOnly=true" if one.get("read_only") else ""
        words.append(
            f"--mnt-volume=name=volume-{number},kind=host,source={source},"
            f"target={one['target']}{read_only}"
        )
    return words + _program_words(spec)


def _account_words(spec: Spec) -> list[str]:
    user, _, group = str(spec.get("user") or "").partition(":")
    group = spec.get("group") or group
    words = [f"--user={user}"] if user else []
    return [*words, f"--group={group}"] if group else words


def _capability_words(spec: Spec) -> list[str]:
    added, dropped = spec.get("cap_add") or [], spec.get("cap_drop") or []
    if not added and not dropped:
        return []
    retained = set() if ALL in dropped else set(CAPABILITIES)
    if ALL in added:
        retained = set(ALL_CAPABILITIES)
    retained |= {capability(one) for one in added if one != ALL}
    retained -= {capability(one) for one in dropped if one != ALL}
    return [f"--caps-retain={','.join(sorted(retained))}"]


def _stream_words(spec: Spec) -> list[str]:
    if spec.get("tty"):
        return ["--stdin=tty", "--stdout=tty", "--stderr=tty"]
    return ["--stdin=stream"] if spec.get("stdin") else []


def _program_words(spec: Spec) -> list[str]:
    entry, command = spec.get("entrypoint"), spec.get("command")
    if entry is None and "rootfs" in spec:
        entry, command = command, None
    if entry:
        return [f"--exec={entry[0]}", "--", *entry[1:], *(command or ())]
    if entry is not None and command:  # an empty one takes the image's away
        return [f"--exec={command[0]}", "--", *command[1:]]
    return ["--", *command] if command else []
