"""Names of pods on their networks: a table of all pods, from which their hosts files are written.

Pods on a network with names find each other in ``/etc/hosts``, so that names work without a server
and without a daemon.  Each pod that joins or leaves updates the files of the others:

    STATE/.names       {"pods": {UUID: {"names": [...], "hosts": path of the pod's file or "",
                                        "networks": {NETWORK: [ADDRESS, ...]}}}}
    STATE/.names.lock  flock(2) held while the table is changed

The lock is for the whole host, so nothing is done under it that an app could delay: the files of
running pods are written without it, from the newest table (``hosts_files.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import remove_file
from ociruntime.base.locks import FileLock
from ociruntime.pods.net import hosts_files, pod_records
from ociruntime.pods.net.resolver import is_pod_name

TABLE = ".names"
LOCK = ".names.lock"
# Names of a line, which musl reads only up to 511 bytes.
_IN_A_LINE = 3

Entry = dict[str, Any]
Pods = dict[str, Entry]


def join(
    state: str, uuid: str, names: Iterable[str], hosts: str, networks: Mapping[str, list[str]]
) -> None:
    """Give a pod its names on ``networks`` (name -> the pod's addresses), and tell the others.

    ``hosts`` is the path of the pod's hosts file, "" if it gets no names of others.  Invalid names
    are left out.  Raises HostError if the table or this pod's own file cannot be written.
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
                hosts_files.create_lock(hosts)
                # New: no program has it open yet.
                hosts_files.update(hosts, _block(pods, entry))
            except OSError as error:
                raise HostError(f"write {hosts}", error) from None
    _tell(state, pods, entry["networks"], uuid)


def leave(state: str, uuid: str) -> None:
    """Remove a pod's names, if it has any, and tell the others.  Raises HostError."""
    if not os.path.exists(f"{state}/{TABLE}"):
        return
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _without_dead(state, _read(state), uuid)
        entry = pods.get(uuid)
        if entry is None:
            return
        # If this is interrupted, the pod is still there, without names, for the next attempt.
        pods[uuid] = {**entry, "names": [], "hosts": ""}
        _write(state, pods)
    _tell(state, pods, entry["networks"], uuid)
    fault("names.before-table")
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _read(state)
        if pods.pop(uuid, None) is not None:
            _write(state, pods)


def pods_on(state: str, network: str) -> list[str]:
    """Return the live pods with names on a network."""
    pods = _without_dead(state, _read(state), "")
    return [uuid for uuid, entry in pods.items() if network in entry["networks"]]


def _without_dead(state: str, pods: Pods, own: str) -> Pods:
    """Return the pods without those that certainly exited, perhaps without clean-up."""
    gone = pod_records.dead(state, set(pods) - {own})
    return {uuid: entry for uuid, entry in pods.items() if uuid not in gone}


def _read(state: str) -> Pods:
    """Return the table; a damaged one, after a power failure, is as good as none."""
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
        raise HostError(f"remove {path}", error) from None


def _tell(state: str, pods: Pods, networks: Mapping[str, object], own: str) -> None:
    """Update the files of the other pods on these networks, as far as possible."""
    files = {
        uuid: entry["hosts"]
        for uuid, entry in pods.items()
        if uuid != own and entry["hosts"] and networks.keys() & entry["networks"].keys()
    }

    def newest(uuid: str) -> bytes | None:
        now = _read(state)
        entry = now.get(uuid)
        return _block(now, entry) if entry and entry["hosts"] else None

    hosts_files.write_all(state, files, newest)


def _block(pods: Pods, reader: Entry) -> bytes:
    """Return the lines for all pods that share a network with ``reader``, itself included."""
    lines = []
    for network in reader["networks"]:
        for entry in pods.values():
            names = entry["names"]
            for address in entry["networks"].get(network, ()):
                for start in range(0, len(names), _IN_A_LINE):
                    lines.append(f"{address}\t{' '.join(names[start : start + _IN_A_LINE])}\n")
    return "".join(lines).encode()
