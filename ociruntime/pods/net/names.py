"""Names of pods on their networks: a table of all pods, from which their hosts files are written.

Pods on a network with names find each other in ``/etc/hosts``, so that names work without a server
and without a daemon.  Each pod that joins or leaves updates the files of the others:

    STATE/.names       {"pods": {UUID: {"names": [...], "hosts": path of the pod's file or "",
                                        "networks": {NETWORK: [ADDRESS, ...]}}}}
    STATE/.names.lock  flock(2) held while the table and the files are changed

The programs of an app can do to its ``/etc/hosts``, which is bind-mounted, whatever root can do to
a file: fill it, lock it, make it immutable.  Here it is opened without waiting and without
following links, read up to a limit, and written in place, because a bind mount keeps its inode.
Text outside our own block is kept.  A file that cannot be written is left as it is: an app that
refuses the names of others harms itself only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.fault import fault
from ociruntime.base.files import remove_file
from ociruntime.base.locks import FileLock
from ociruntime.pods.net import owners
from ociruntime.pods.net.resolver import is_pod_name

TABLE = ".names"
LOCK = ".names.lock"
BEGIN = b"# ocipod: pods on the same networks\n"
END = b"# ocipod: end of the pods on the same networks\n"
LARGEST_FILE = 256 << 10  # bytes; a larger hosts file is not updated
# Names of a line, which musl reads only up to 511 bytes.
_IN_A_LINE = 3
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

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
                update(hosts, _block(pods, entry))
            except OSError as error:
                raise HostError(f"write {hosts}", error) from None
        _tell(pods, entry["networks"], uuid)


def leave(state: str, uuid: str) -> None:
    """Remove a pod's names, if it has any, and tell the others.  Raises HostError."""
    if not os.path.exists(f"{state}/{TABLE}"):
        return
    with FileLock(f"{state}/{LOCK}", exclusive=True):
        pods = _read(state)
        entry = pods.pop(uuid, None)
        if entry is None:
            return
        pods = _without_dead(state, pods, uuid)
        # Before the table: if this is interrupted, the pod is still there for the next attempt.
        _tell(pods, entry["networks"], uuid)
        fault("names.before-table")
        _write(state, pods)


def pods_on(state: str, network: str) -> list[str]:
    """Return the live pods with names on a network."""
    pods = _without_dead(state, _read(state), "")
    return [uuid for uuid, entry in pods.items() if network in entry["networks"]]


def _without_dead(state: str, pods: Pods, own: str) -> Pods:
    """Return the pods without those that certainly exited, perhaps without clean-up."""
    gone = owners.dead(state, set(pods) - {own})
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


def _tell(pods: Pods, networks: Mapping[str, object], own: str) -> None:
    """Update the files of the other pods on these networks, as far as possible."""
    blocks: dict[tuple[str, ...], bytes] = {}
    for uuid, entry in pods.items():
        shared = uuid != own and entry["hosts"] and networks.keys() & entry["networks"].keys()
        if not shared:
            continue
        key = tuple(entry["networks"])
        if key not in blocks:
            blocks[key] = _block(pods, entry)
        try:
            update(entry["hosts"], blocks[key])
        except OSError:
            pass  # that pod has just ended, or its program prevents it


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


def update(path: str, block: bytes) -> None:
    """Replace our block of a hosts file in place.  Raises OSError.

    A program that reads the file meanwhile finds the old or the new lines, or empty ones.
    """
    fd = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        before = os.pread(fd, LARGEST_FILE + 1, 0)
        if len(before) > LARGEST_FILE:
            return
        after = with_block(before, block)
        if after == before:
            return
        whole = after.ljust(len(before), b"\n")
        if os.pwrite(fd, whole, 0) != len(whole):
            raise OSError(28, "no space left on device")
        if len(whole) > len(after):
            os.ftruncate(fd, len(after))
    finally:
        os.close(fd)


def with_block(text: bytes, block: bytes) -> bytes:
    """Return the text of a hosts file with ``block`` in place of our last one; pure."""
    head, begin, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2] if begin else b""
    if head and not head.endswith(b"\n"):
        head += b"\n"
    return head + BEGIN + block + END + tail
