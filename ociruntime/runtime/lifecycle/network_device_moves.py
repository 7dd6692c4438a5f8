"""Move network devices into a container (``linux.netDevices``), and record them for a rollback.

When a container ends, the kernel moves its hardware devices back to the host.  The runtime itself
moves devices back only if the creation fails (LNX-NETDEV-08 and -09).
"""

from __future__ import annotations

import posix
from typing import Any

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.log import Log
from ociruntime.base.rtnetlink import OWN_NAMESPACE, inside
from ociruntime.runtime.host.network_devices import Device, bring_back, carry_over, survey
from ociruntime.runtime.host.network_namespace import NetworkNamespace
from ociruntime.runtime.lifecycle.rollback import Rollback
from ociruntime.runtime.spec.config_types import Config

NAME = "network.json"
# O_NONBLOCK and O_NOCTTY, in case the path is a FIFO or a terminal.
OPEN_NAMESPACE = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
PERMISSION_HINT = "entering it needs CAP_SYS_ADMIN in the user namespace that owns it"


def check(config: Config) -> None:
    """Check that each device in linux.netDevices can be moved, without moving it.

    Raises HostError, and ConfigError if a device cannot be moved.
    """
    path = _joined(config)
    if not path:
        _survey(config, None)
        return
    try:
        namespace = posix.open(path, OPEN_NAMESPACE)
    except OSError:
        return  # setns(2) reports the error
    try:
        if _identity(path) == _identity(OWN_NAMESPACE):
            message = f'"{path}" is the runtime\'s own network namespace'
            hint = "the devices are already in that namespace"
            raise ConfigError("linux.netDevices", message, hint)
        target = _enter(namespace)
    finally:
        posix.close(namespace)
    _survey(config, target)


def move_into(config: Config, pid: int, directory: str, rollback: Rollback, log: Log) -> None:
    """Move the devices in linux.netDevices to the network namespace of process ``pid``.

    Records the moves in the state directory ``directory``, and pushes their reversal on
    ``rollback``.  Raises ConfigError if a device cannot be moved, and HostError.
    """
    try:
        namespace = posix.open(f"/proc/{pid}/ns/net", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError as error:
        raise HostError("linux.netDevices: open the container's network namespace", error) from None
    try:
        target = _enter(namespace)
        own, devices = _survey(config, target)
        rollback.push(lambda: _bring_all_back(devices, own, target))
        path = _joined(config)
        document = {"path": path, "identity": _identity(path) if path else []}

        def record(devices: list[Device]) -> None:
            document["devices"] = [device.record() for device in devices]
            _write(directory, document)

        _warn(log, carry_over(devices, own, target, namespace, record))
    finally:
        posix.close(namespace)


def clear(directory: str, log: Log) -> None:
    """Move network devices back to the host, after a killed ``create`` has moved them.

    ``directory`` is the state directory of the container, and contains the record of the moves.
    Raises HostError.
    """
    file = f"{directory}/{NAME}"
    try:
        document: Any = parse(read_file(file), file)
    except OSError as error:
        raise HostError(f'read "{file}"', error) from None
    devices = [Device(**members) for members in document["devices"]]
    own = source = NetworkNamespace()
    path = document["path"]
    if path and _identity(path) == document["identity"]:
        try:
            namespace = posix.open(path, OPEN_NAMESPACE)
        except OSError as error:
            raise HostError(f'linux.netDevices: open "{path}"', error) from None
        try:
            source = _enter(namespace)
        finally:
            posix.close(namespace)
    _warn(log, bring_back(devices, own, source))


def _bring_all_back(devices: list[Device], own: NetworkNamespace, source: NetworkNamespace) -> None:
    """Move ``devices`` from the network namespace ``source`` back to ``own``.

    Restores their names and addresses.  Raises RuntimeFailure if a device cannot be moved back.
    """
    lost = bring_back(devices, own, source)
    if lost:
        raise RuntimeFailure("; ".join(lost))


def _warn(log: Log, warnings: list[str]) -> None:
    for warning in warnings:
        log.warning(warning)


def _joined(config: Config) -> str:
    """Return the path of the network namespace that ``config`` joins, or "" if it creates one."""
    for namespace in config["linux"]["namespaces"]:
        if namespace["type"] == "network":
            return namespace.get("path") or ""
    return ""


def _identity(path: str) -> list[int]:
    """Return [device, inode] of the namespace file at ``path``, or [] if it is not accessible."""
    try:
        status = posix.stat(path)
    except OSError:
        return []
    return [status.st_dev, status.st_ino]


def _enter(namespace: int) -> NetworkNamespace:
    try:
        return inside(namespace, NetworkNamespace)
    except OSError as error:
        hint = PERMISSION_HINT if error.errno == 1 else ""
        action = "linux.netDevices: enter the container's network namespace"
        raise HostError(action, error, hint) from None


def _survey(
    config: Config, target: NetworkNamespace | None
) -> tuple[NetworkNamespace, list[Device]]:
    try:
        own = NetworkNamespace()
        return own, survey(config["linux"]["netDevices"], own, target)
    except OSError as error:
        raise HostError("linux.netDevices: list the host's devices", error) from None


def _write(directory: str, document: dict[str, Any]) -> None:
    try:
        replace_file(f"{directory}/{NAME}", dump(document).encode())
    except OSError as error:
        raise HostError(f'write "{directory}/{NAME}"', error) from None
