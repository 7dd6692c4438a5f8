"""Records of containers on disk, and the JSON that clients get for a container.

The manager's data directory contains a directory for each container.  Files are replaced
atomically:

    ROOT/lock                            flock(2) held by the daemon
    ROOT/events.jsonl, events.jsonl.1    the event log, see events.py
    ROOT/volumes/NAME                    volumes, see volumes.py
    ROOT/containers/ID/container.state   the record
    ROOT/containers/ID/creating          marker of an unfinished creation, see below
    ROOT/containers/ID/removing          marker of an unfinished removal, see below
    ROOT/containers/ID/pod               the UUID of the pod that is being created

The markers ``creating`` and ``removing`` contain ``{"volumes": [names]}``: the new container's
anonymous volumes, or the volumes to remove with the container.

A record contains only what the pod's files do not: whether the container is running, for example,
is always read from the pod.

    {"id", "name", "image", "image_id", "command": [...], "created_at", "pod": UUID, "spec": {...},
     "wanted": "running" | "stopped", "ever_started", "restart_count",
     "anonymous_volumes": [names of the volumes that ``rm -v`` removes],
     "seen_start", "seen_end": the last start and exit that were published as events,
     "last": {"started_at", "finished_at", "exit_code", "signal", "oom_killed", "error"}}
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ociruntime.base.errors import HostError, ManagerError
from ociruntime.base.files import remove_file, replace_file, sync_directory
from ociruntime.base.locks import lock_within
from ociruntime.base.trusted_directories import make_directory
from ociruntime.manager.containers import container_spec as specs
from ociruntime.manager.containers.pod_status import (
    CORRUPT,
    RESTARTING,
    STOPPED,
    LastRun,
    PodStatus,
)

Answer = dict[str, Any]

STATE = "container.state"
CREATING = "creating"
REMOVING = "removing"
POD = "pod"
_TEMPORARY = ".tmp-"
# Seconds to wait for the lock: a child of a killed daemon inherits the lock until its execve(2).
DYING_SECONDS = 1.0


@dataclass
class Record:
    """What the manager stores about a container: the content of its file ``container.state``."""

    id: str
    name: str
    image: str
    image_id: str
    command: list[str]
    created_at: str
    pod: str
    spec: dict[str, Any]
    wanted: str = STOPPED  # the state that a client requested last: running or stopped
    ever_started: bool = False
    restart_count: int = 0
    anonymous_volumes: list[str] = field(default_factory=list)
    seen_start: str = ""
    seen_end: str = ""
    last: LastRun = field(default_factory=LastRun)

    @property
    def stop_timeout(self) -> float:
        return float(specs.setting(self.spec, "stop_timeout"))

    @property
    def stop_signal(self) -> str:
        return str(specs.setting(self.spec, "stop_signal"))

    @property
    def auto_remove(self) -> bool:
        return bool(self.spec.get("auto_remove"))

    @property
    def restart_policy(self) -> tuple[str, int]:
        """The name of the restart policy, and the maximum number of restarts (0: unlimited)."""
        policy = specs.setting(self.spec, "restart_policy")
        return str(policy["name"]), int(policy.get("maximum") or 0)


def to_text(record: Record) -> bytes:
    """Serialise a record as the contents of ``container.state``."""
    return json.dumps(asdict(record), indent=1).encode() + b"\n"


def from_text(text: bytes) -> Record:
    """Parse the contents of ``container.state``.  Raises ManagerError if they are invalid."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ManagerError(f"invalid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ManagerError("invalid container record: it is not a JSON object")
    optional = (
        *("wanted", "ever_started", "restart_count", "anonymous_volumes"),
        *("seen_start", "seen_end", "last"),
    )
    _check(document, Record, optional)
    last = document.pop("last", {})
    _check(last, LastRun, tuple(member.name for member in fields(LastRun)))
    return Record(**document, last=LastRun(**last))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "command": list,
    "spec": dict,
    "ever_started": bool,
    "restart_count": int,
    "anonymous_volumes": list,
    "last": dict,
    "started_at": (str, type(None)),
    "finished_at": (str, type(None)),
    "exit_code": (int, type(None)),
    "signal": (int, type(None)),
    "oom_killed": bool,
}


def _check(
    document: dict[str, Any], kind: type[Record] | type[LastRun], optional: tuple[str, ...]
) -> None:
    known = {member.name for member in fields(kind)}
    if unknown := sorted(set(document) - known):
        raise ManagerError(f'invalid container record: unknown member "{unknown[0]}"')
    if missing := sorted(known - set(document) - set(optional)):
        raise ManagerError(f'invalid container record: the member "{missing[0]}" is missing')
    for name, value in document.items():
        if not isinstance(value, _TYPES.get(name, str)):
            raise ManagerError(f'invalid container record: the member "{name}" has the wrong type')


def answer(record: Record, pod_status: PodStatus, *, starting: bool = False) -> Answer:
    """Return the JSON that clients get for a container, made from its record and its pod's status.

    ``starting`` is True while a restart is pending; the status is then ``restarting``.
    """
    last = pod_status.last or record.last
    status = pod_status.of_container(record.ever_started)
    if starting and status == STOPPED:
        status = RESTARTING
    spec = record.spec
    name, maximum = record.restart_policy
    return {
        "id": record.id,
        "name": record.name,
        "status": status,
        "image": record.image,
        "rootfs": spec.get("rootfs"),
        "command": record.command,
        "created_at": record.created_at,
        "started_at": last.started_at,
        "finished_at": last.finished_at,
        "exit_code": last.exit_code,
        "signal": last.signal,
        "oom_killed": last.oom_killed,
        "error": pod_status.error or last.error,
        "pid": pod_status.pid,
        "pod": record.pod,
        "restart_policy": {"name": name, "maximum": maximum},
        "restart_count": record.restart_count,
        "labels": spec.get("labels") or {},
        "auto_remove": record.auto_remove,
        "stop_signal": record.stop_signal,
        "stop_timeout": record.stop_timeout,
        "addresses": pod_status.addresses,
        "ports": spec.get("ports") or [],
        "spec": spec,
    }


def corrupt_answer(container_id: str, why: str) -> Answer:
    """Return the JSON of ``answer`` for a container whose record is corrupt.

    ``why`` is the error found in the record; it becomes the member ``error``.
    """
    blank = Record(container_id, container_id[:12], "", "", [], "", "", {})
    unknown = {"status": CORRUPT, "error": why, "created_at": None, "pod": None}
    return answer(blank, PodStatus()) | unknown


class RecordStore:
    """The containers' records and marker files in the manager's data directory ``root``.

    Methods raise HostError if a file cannot be read or written, unless they say otherwise.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.containers = f"{root}/containers"
        self.volumes = f"{root}/volumes"
        self._lock = -1

    def open(self) -> None:
        """Create (mode 0750) and lock the data directory.

        Raises ManagerError if another daemon has locked it.
        """
        for path in (self.root, self.containers, self.volumes):
            make_directory(os.path.abspath(path), 0o750, "data directory")
        try:
            self._lock = os.open(f"{self.root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            locked = lock_within(self._lock, DYING_SECONDS)
        except OSError as error:
            self.close()
            raise HostError(f'open "{self.root}"', error) from None
        if not locked:
            self.close()
            raise ManagerError(
                f'lock the data directory "{self.root}": another ocid is using it',
                "stop the other daemon, or choose another directory with --root",
            )

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, container_id: str, name: str = "") -> str:
        """Return the path of a container's directory, or of the file ``name`` in it."""
        directory = f"{self.containers}/{container_id}"
        return f"{directory}/{name}" if name else directory

    def ids(self) -> list[str]:
        """Return the sorted ids of all containers; remove a killed daemon's temporary files."""
        with _failing(f'read directory "{self.containers}"'):
            ids = sorted(entry.name for entry in os.scandir(self.containers) if entry.is_dir())
            for container_id in ids:
                for name in os.listdir(self.path(container_id)):
                    if name.startswith(_TEMPORARY):
                        os.unlink(self.path(container_id, name))
            return ids

    def has(self, container_id: str, name: str) -> bool:
        return os.path.lexists(self.path(container_id, name))

    def is_to_be_removed(self, container_id: str) -> bool:
        """Return whether the container's creation or removal was interrupted."""
        return self.has(container_id, CREATING) or self.has(container_id, REMOVING)

    def is_empty(self, container_id: str) -> bool:
        """Return whether a container's directory is empty.

        It is empty if the daemon was killed between mkdir(2) and writing the marker ``creating``.
        """
        with _failing(f'read directory "{self.path(container_id)}"'):
            return not os.listdir(self.path(container_id))

    def begin(self, container_id: str, volumes: list[str]) -> None:
        """Create a new container's directory and its marker file ``creating``.

        ``volumes`` lists the anonymous volumes that the caller creates next.  It is stored in the
        marker file.
        """
        with _failing(f'create directory "{self.path(container_id)}"'):
            os.mkdir(self.path(container_id), 0o750)
        self.write_marker(container_id, CREATING, volumes)
        self._sync(self.containers)

    def save(self, record: Record) -> None:
        """Write the container's record atomically, with fsync of the file and its directory."""
        self._replace(record.id, STATE, to_text(record))

    def load(self, container_id: str) -> Record:
        """Read and return a container's record.

        Raises ManagerError if the file ``container.state`` is missing or invalid.
        """
        path = self.path(container_id, STATE)
        try:
            with open(path, "rb") as file:
                record = from_text(file.read())
        except OSError as error:
            raise ManagerError(f'read "{path}": {(error.strerror or "").lower()}') from None
        except ManagerError as error:
            raise ManagerError(f'read "{path}": {error}') from None
        if record.id != container_id:
            message = f"it contains the record of another container, {record.id}"
            raise ManagerError(f'read "{path}": {message}')
        return record

    def write_marker(self, container_id: str, name: str, volumes: Collection[str] = ()) -> None:
        """Write the container's marker file ``name``, which lists ``volumes``, with fsync."""
        content = json.dumps({"volumes": list(volumes)}).encode() + b"\n"
        self._replace(container_id, name, content)

    def marked_volumes(self, container_id: str, name: str) -> list[str]:
        """Return the volume names in the marker file ``name``; [] if it cannot be read."""
        try:
            with open(self.path(container_id, name), "rb") as file:
                volumes = json.load(file)["volumes"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [str(volume) for volume in volumes] if isinstance(volumes, list) else []

    def new_pod(self, container_id: str) -> str:
        """Return the UUID in a container's marker file ``pod``; "" if it cannot be read."""
        try:
            with open(self.path(container_id, POD), encoding="ascii", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def forget(self, container_id: str, *names: str) -> None:
        """Remove the marker files ``names`` of a container, with fsync; ignore missing files."""
        with _failing(f'remove files of "{self.path(container_id)}"'):
            for name in names:
                remove_file(self.path(container_id, name))
        self._sync(self.path(container_id))

    def remove(self, container_id: str) -> None:
        """Remove the container's directory; remove the markers ``creating`` and ``removing`` last.

        If the daemon is killed during the removal, the next daemon finds the marker and completes
        the removal.
        """
        path = self.path(container_id)
        last = (CREATING, REMOVING)
        with _failing(f'remove "{path}"'):
            try:
                for name in sorted(os.listdir(path), key=lambda name: name in last):
                    whole = f"{path}/{name}"
                    if os.path.isdir(whole) and not os.path.islink(whole):
                        shutil.rmtree(whole)
                    else:
                        os.unlink(whole)
                os.rmdir(path)
            except FileNotFoundError:
                return
        self._sync(self.containers)

    def _replace(self, container_id: str, name: str, data: bytes) -> None:
        path = self.path(container_id, name)
        temporary = self.path(container_id, f"{_TEMPORARY}{secrets.token_hex(8)}")
        with _failing(f'write "{path}"'):
            replace_file(path, data, 0o640, lasting=True, temporary=temporary)
            sync_directory(self.path(container_id))

    def _sync(self, path: str) -> None:
        with _failing(f'sync "{path}"'):
            sync_directory(path)


@contextmanager
def _failing(action: str) -> Iterator[None]:
    """Context manager: convert an OSError to a HostError whose message begins with ``action``."""
    try:
        yield
    except OSError as error:
        raise HostError(action, error) from None
