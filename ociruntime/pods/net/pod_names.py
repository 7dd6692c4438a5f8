"""Names of pods on networks: a table of all pods, and the lines for their hosts files.

Pods on a network with names find each other in ``/etc/hosts``, so neither a DNS server nor a daemon
is needed.  Each pod that joins or leaves such a network updates the files of the others:

    STATE/.names       {"pods": {UUID: {"names": [...], "hosts": path of the pod's file or "",
                                        "networks": {NETWORK: [ADDRESS, ...]}}}}
    STATE/.names.lock  flock(2) held while the table is changed

All pods of the host share this lock, so an app must not be able to delay the process that holds it.
The hosts files of running pods are therefore written after the lock is released, from the newest
table (``update_hosts_files.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import is_there, remove_file
from ociruntime.base.locks import FileLock
from ociruntime.pods.net import pod_records, update_hosts_files
from ociruntime.pods.net.hosts_file import is_pod_name

TABLE = ".names"
LOCK = ".names.lock"
# Names in a line: musl reads only the first 511 bytes of it.
_IN_A_LINE = 3

Entry = dict[str, Any]
Pods = dict[str, Entry]


def join(
    state: str, uuid: str, names: Iterable[str], hosts: str, networks: Mapping[str, list[str]]
) -> None:
    """Publish the ``names`` of the pod ``uuid`` on ``networks``, {network: the pod's addresses}.

    Adds the pod to the table of names below ``state``, and updates the other pods' hosts files.
    ``hosts`` is the path of the pod's own hosts file, or "" if that file is not to be written.
    Ignores invalid names.  Raises HostError if the table or the pod's own file cannot be written.
    """
    entry: Entry = {
        "names": list(dict.fromkeys(name for name in names if is_pod_name(name))),
        "hosts": hosts,
        "networks": {name: list(addresses) for name, addresses in networks.items()},
    }
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _without_dead(state, _read(state), uuid)
        pods[uuid] = entry
        _write(state, pods)
        fault("names.after-table")
        if hosts:
            try:
                update_hosts_files.create_lock(hosts)
                # Safe under the lock: the pod's file is new, no program has it open yet.
                update_hosts_files.update(hosts, _block(pods, entry))
            except OSError as error:
                raise HostError(f'write the hosts file "{hosts}"', error) from None
    _update_others(state, pods, entry["networks"], uuid)


def leave(state: str, uuid: str) -> None:
    """Remove a pod's names from the table of names below ``state``; update other pods' hosts files.

    Raises HostError if the table cannot be written.
    """
    if not is_there(f"{state}/{TABLE}"):
        return
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _without_dead(state, _read(state), uuid)
        entry = pods.get(uuid)
        if entry is None:
            return
        # The entry is removed last: if this is interrupted, the next attempt finds it.
        pods[uuid] = {**entry, "names": [], "hosts": ""}
        _write(state, pods)
    _update_others(state, pods, entry["networks"], uuid)
    fault("names.before-table")
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _read(state)
        if pods.pop(uuid, None) is not None:
            _write(state, pods)


def pods_on(state: str, network: str) -> list[str]:
    """Return the UUIDs of live pods that have names on ``network``."""
    pods = _without_dead(state, _read(state), "")
    return [uuid for uuid, entry in pods.items() if network in entry["networks"]]


def _without_dead(state: str, pods: Pods, own: str) -> Pods:
    """Return ``pods`` without the pods that have exited; always include the pod ``own``.

    A pod whose monitor was killed has exited without calling ``leave``.
    """
    gone = pod_records.dead_pods(state, set(pods) - {own})
    return {uuid: entry for uuid, entry in pods.items() if uuid not in gone}


def _read(state: str) -> Pods:
    """Return the table of pods, or {} if its file is missing or was damaged by a power failure."""
    try:
        pods = json_files.read(f"{state}/{TABLE}").get("pods")
    except (HostError, PodError):
        return {}
    if not isinstance(pods, dict):
        return {}
    return {uuid: entry for uuid, entry in pods.items() if _is_entry(entry)}


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("names"), list)
        and isinstance(entry.get("hosts"), str)
        and isinstance(entry.get("networks"), dict)
    )


def _write(state: str, pods: Pods) -> None:
    path = f"{state}/{TABLE}"
    if pods:
        json_files.replace(path, {"pods": pods}, lasting=False)
        return
    try:
        remove_file(path)
    except OSError as error:
        raise HostError(f'remove the file "{path}"', error) from None


def _update_others(state: str, pods: Pods, networks: Mapping[str, object], own: str) -> None:
    """Update the hosts files of all pods on ``networks`` except the pod ``own``.

    Files that cannot be written are skipped.
    """
    files = {
        uuid: entry["hosts"]
        for uuid, entry in pods.items()
        if uuid != own and entry["hosts"] and networks.keys() & entry["networks"].keys()
    }

    def newest(uuid: str) -> bytes | None:
        now = _read(state)
        entry = now.get(uuid)
        return _block(now, entry) if entry and entry["hosts"] else None

    update_hosts_files.write_all(state, files, newest)


def _block(pods: Pods, reader: Entry) -> bytes:
    """Return the lines for a pod's hosts file: the names of all pods that share a network with it.

    ``reader`` is the pod's entry in the table ``pods``.
    """
    lines = []
    for network in reader["networks"]:
        for entry in pods.values():
            names = entry["names"]
            for address in entry["networks"].get(network, ()):
                for start in range(0, len(names), _IN_A_LINE):
                    lines.append(f"{address}\t{' '.join(names[start : start + _IN_A_LINE])}\n")
    return "".join(lines).encode()
