"""Network records of pods, which show whether a pod's addresses and ports can be reused.

``STATE/.pods/UUID`` exists from before a pod's first address is assigned until all its addresses
are released.  It contains the boot id and the network namespace: a pod whose namespace no longer
exists is dead, even if its cleanup never ran.  It also lists the host ports forwarded to the pod,
because a port can be forwarded to one pod only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ociruntime.base.errors import HostError, NetworkError
from ociruntime.base.files import is_there, replace_file
from ociruntime.base.json_text import dump, load
from ociruntime.base.trusted_directories import make_directory
from ociruntime.pods.net.firewall_rules import DIGITS

DIRECTORY = ".pods"
ANY = ("0.0.0.0", "::")  # noqa: S104 - stand for all addresses of the host
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot() -> str:
    """Return the kernel's id of the current boot (a UUID)."""
    with open(BOOT_ID, encoding="utf-8") as file:
        return file.read().strip()


def namespace_identity(path: str) -> list[int]:
    """Return [device, inode] of the namespace file ``path``, or [] if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_dev, status.st_ino]


def write_record(
    state: str,
    uuid: str,
    path: str,
    identity: list[int],
    ports: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the network record of the pod ``uuid`` below the directory ``state``.

    ``path`` is the path of the pod's network namespace, ``identity`` its [device, inode], ``ports``
    are the CNI port mappings forwarded to the pod.

    Raises HostError if the record cannot be written.  Raises NetworkError if one of the ports is
    already forwarded to another live pod.  Raises NetworkError if the UUID of another pod with a
    record begins with the same 8 digits: the names of interfaces and rules contain these digits.
    """
    import fcntl

    directory = f"{state}/{DIRECTORY}"
    record = {"boot": boot(), "namespace": path, "identity": identity, "ports": list(ports)}
    try:
        make_directory(directory, 0o750, "network directory")
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if other := namesake(state, uuid):
                raise NetworkError(
                    f"connect pod {uuid} to its networks: its UUID begins with the same {DIGITS} "
                    f"digits as that of pod {other}, so interface names would clash",
                    "create the pod again, so that it gets another UUID",
                )
            if ports:
                _refuse_taken(state, uuid, ports)
            replace_file(f"{directory}/{uuid}", dump(record).encode(), 0o640)
        finally:
            os.close(lock)
    except OSError as error:
        raise HostError(f'write the network record "{directory}/{uuid}"', error) from None


def has_record(state: str, uuid: str) -> bool:
    """Return whether the pod ``uuid`` has a network record; a pod without one has no addresses."""
    return is_there(f"{state}/{DIRECTORY}/{uuid}")


def namesake(state: str, uuid: str) -> str:
    """Return the UUID of another pod whose UUID begins with the same 8 digits, or "" if none does.

    Only pods with a network record are considered.
    """
    try:
        names = os.listdir(f"{state}/{DIRECTORY}")
    except FileNotFoundError:
        return ""
    return next((one for one in names if one != uuid and one[:DIGITS] == uuid[:DIGITS]), "")


def _refuse_taken(state: str, uuid: str, ports: Sequence[Mapping[str, Any]]) -> None:
    directory = f"{state}/{DIRECTORY}"
    for other in os.listdir(directory):
        if other == uuid or other.startswith("."):
            continue
        record = _read(f"{directory}/{other}") or {}
        for theirs in record.get("ports") or ():
            for ours in ports:
                if _collide(ours, theirs) and not dead_pods(state, {other}):
                    raise NetworkError(
                        f"forward host port {ours['hostPort']}/{ours['protocol']}: port is already "
                        f"allocated: forwarded to pod {other}",
                        "publish another port, or stop that pod first",
                    )


def _collide(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    same = all(one.get(name) == other.get(name) for name in ("hostPort", "protocol"))
    addresses = {one.get("hostIP") or ANY[0], other.get("hostIP") or ANY[0]}
    return same and (len(addresses) == 1 or bool(addresses & set(ANY)))


def _read(path: str) -> dict[str, Any] | None:
    """Return the network record in the file ``path``.

    Returns None if the file is missing, {} if it is invalid.
    """
    try:
        with open(path, "rb") as file:
            record = load(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def forget(state: str, uuid: str) -> None:
    """Remove a pod's network record, if it exists; raise HostError if it cannot be removed."""
    try:
        os.unlink(f"{state}/{DIRECTORY}/{uuid}")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f'remove the network record "{state}/{DIRECTORY}/{uuid}"', error) from None


def dead_pods(state: str, uuids: set[str]) -> set[str]:
    """Return the UUIDs in ``uuids`` whose pods have exited, even if their cleanup never ran.

    A pod without a network record counts as exited, a pod with an invalid record as running.
    """
    dead: set[str] = set()
    namespaces: set[tuple[int, int]] | None = None
    now = boot()
    for uuid in uuids:
        record = _read(f"{state}/{DIRECTORY}/{uuid}")
        if record is None or record.get("boot", now) != now:
            dead.add(uuid)
            continue
        path, identity = record.get("namespace"), record.get("identity")
        if not isinstance(path, str) or not isinstance(identity, list):
            continue
        if namespace_identity(path) != identity:
            if namespaces is None:
                namespaces = _namespaces_in_use()
            if tuple(identity) not in namespaces:
                dead.add(uuid)
    return dead


def _namespaces_in_use() -> set[tuple[int, int]]:
    namespaces = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            identity = namespace_identity(f"/proc/{name}/ns/net")
            if identity:
                namespaces.add((identity[0], identity[1]))
    return namespaces
