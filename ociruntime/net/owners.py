"""Which pods have networks: a small file each, so that addresses of dead ones can be had again.

``STATE/.pods/UUID`` is there from before the first address is taken until everything is given
back.  It names the boot and the network namespace: once that has gone, so has the pod, whatever
became of those who should have cleaned up.
"""

from __future__ import annotations

import posix

from ociruntime.errors import HostError

DIRECTORY = ".pods"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot() -> str:
    """The kernel's name for this boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def namespace_identity(path: str) -> list[int]:
    """[device, inode] of a namespace, [] if there is none at ``path``."""
    try:
        found = posix.stat(path)
    except OSError:
        return []
    return [found.st_dev, found.st_ino]


def note(state: str, uuid: str, path: str, identity: list[int]) -> None:
    """Make the file of a pod.  Raises HostError."""
    import json
    import os

    directory = f"{state}/{DIRECTORY}"
    record = {"boot": boot(), "namespace": path, "identity": identity}
    try:
        os.makedirs(directory, 0o750, exist_ok=True)
        with open(f"{directory}/.{uuid}", "w", encoding="ascii") as file:
            json.dump(record, file)
        posix.rename(f"{directory}/.{uuid}", f"{directory}/{uuid}")
    except OSError as error:
        raise HostError(f"write {directory}/{uuid}", error) from None


def forget(state: str, uuid: str) -> None:
    """Remove it.  Raises HostError."""
    try:
        posix.unlink(f"{state}/{DIRECTORY}/{uuid}")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f"remove {state}/{DIRECTORY}/{uuid}", error) from None


def dead(state: str, uuids: set[str]) -> set[str]:
    """Those that cannot come back for their addresses.  What cannot be read counts as alive."""
    import json

    found = set()
    namespaces: set[tuple[int, int]] | None = None
    for uuid in uuids:
        try:
            with open(f"{state}/{DIRECTORY}/{uuid}", "rb") as file:
                record = json.load(file)
            now, path, identity = record["boot"], record["namespace"], record["identity"]
        except FileNotFoundError:
            found.add(uuid)
            continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if now != boot():
            found.add(uuid)
        elif namespace_identity(path) != identity:
            if namespaces is None:
                namespaces = _namespaces_in_use()
            if tuple(identity) not in namespaces:
                found.add(uuid)
    return found


def _namespaces_in_use() -> set[tuple[int, int]]:
    found = set()
    for name in posix.listdir("/proc"):
        if name.isdigit():
            identity = namespace_identity(f"/proc/{name}/ns/net")
            if identity:
                found.add((identity[0], identity[1]))
    return found
