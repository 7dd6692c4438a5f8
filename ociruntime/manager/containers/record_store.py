"""The manager's data directory: one directory per container, whose files are replaced atomically.

ROOT/lock                            flock(2) held by the daemon
ROOT/events.jsonl, events.jsonl.1    the event log, see events.py
ROOT/volumes/NAME                    named volumes
ROOT/containers/ID/container.state   the record, see record.py
ROOT/containers/ID/creating          marker: creation is not finished
ROOT/containers/ID/replacing         marker: moving to a new pod: {"old": [UUIDs], "pod", "moving"}
ROOT/containers/ID/removing          marker: removal has begun
ROOT/containers/ID/pod               the UUID of the pod that is being made
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, ManagerError
from ociruntime.base.files import sync_directory
from ociruntime.base.locks import lock_within
from ociruntime.base.trusted import make_directory
from ociruntime.manager.containers import record as records

if TYPE_CHECKING:
    from ociruntime.manager.containers.record import Record

STATE = "container.state"
CREATING = "creating"
REPLACING = "replacing"
REMOVING = "removing"
POD = "pod"
_TEMPORARY = ".tmp-"
# A child that a killed daemon had just forked shares its lock until it executes its program.
DYING_SECONDS = 1.0


class RecordStore:
    """The data directory ``root``, created if missing (mode 0750).  Methods raise HostError."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.containers = f"{root}/containers"
        self.volumes = f"{root}/volumes"
        self._lock = -1

    def open(self) -> None:
        """Create and lock the data directory.  Raises ManagerError if another daemon holds it."""
        for path in (self.root, self.containers, self.volumes):
            make_directory(os.path.abspath(path), 0o750, "data directory")
        try:
            self._lock = os.open(f"{self.root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            locked = lock_within(self._lock, DYING_SECONDS)
        except OSError as error:
            self.close()
            raise HostError(f"open {self.root}", error) from None
        if not locked:
            self.close()
            raise ManagerError(
                f"lock {self.root}: another ocid is using it",
                "give this one a data directory of its own with --root",
            )

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, container_id: str, name: str = "") -> str:
        """Return the path of a container's directory, or of a file in it."""
        directory = f"{self.containers}/{container_id}"
        return f"{directory}/{name}" if name else directory

    def ids(self) -> list[str]:
        """Return the ids of all container directories; remove temporary files of killed writers."""
        try:
            found = sorted(entry.name for entry in os.scandir(self.containers) if entry.is_dir())
            for container_id in found:
                for name in os.listdir(self.path(container_id)):
                    if name.startswith(_TEMPORARY):
                        os.unlink(self.path(container_id, name))
        except OSError as error:
            raise HostError(f"list {self.containers}", error) from None
        return found

    def has(self, container_id: str, name: str) -> bool:
        return os.path.lexists(self.path(container_id, name))

    def is_empty(self, container_id: str) -> bool:
        """Return whether the directory is empty: a kill came right after mkdir or before rmdir."""
        try:
            return not os.listdir(self.path(container_id))
        except OSError as error:
            raise HostError(f"list {self.path(container_id)}", error) from None

    def begin(self, container_id: str) -> None:
        """Make the directory of a new container, with the marker ``creating`` in it."""
        try:
            os.mkdir(self.path(container_id), 0o750)
        except OSError as error:
            raise HostError(f"make {self.path(container_id)}", error) from None
        self.write_marker(container_id, CREATING, {})
        self._sync(self.containers)

    def save(self, record: Record) -> None:
        """Replace the container's record durably (fsync of file and directory)."""
        self._replace(record.id, STATE, records.to_text(record))

    def load(self, container_id: str) -> Record:
        """Read a container's record.  Raises ManagerError if it is missing or damaged."""
        path = self.path(container_id, STATE)
        try:
            with open(path, "rb") as file:
                found = records.from_text(file.read())
        except OSError as error:
            raise ManagerError(f"read {path}: {(error.strerror or '').lower()}") from None
        except ManagerError as error:
            raise ManagerError(f"{path}: {error}") from None
        if found.id != container_id:
            raise ManagerError(f"{path}: contains the record of another container, {found.id}")
        return found

    def write_marker(self, container_id: str, name: str, value: dict[str, Any]) -> None:
        """Write a marker file of the container durably."""
        self._replace(container_id, name, json.dumps(value).encode() + b"\n")

    def read_marker(self, container_id: str, name: str) -> dict[str, Any]:
        """Return the contents of a marker; empty if it is missing or damaged."""
        try:
            with open(self.path(container_id, name), "rb") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def new_pod(self, container_id: str) -> str:
        """Return the UUID that ``ocipod`` wrote to ``--uuid-file-save``; empty if there is none."""
        try:
            with open(self.path(container_id, POD), encoding="ascii", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def marked_pods(self, container_id: str) -> list[str]:
        """Return the UUIDs of former pods and of the pod being made, from the markers."""
        marker = self.read_marker(container_id, REPLACING)
        found = [*marker.get("old", ()), marker.get("pod"), self.new_pod(container_id)]
        return list(dict.fromkeys(str(uuid) for uuid in found if uuid))

    def forget(self, container_id: str, *names: str) -> None:
        """Remove these marker files durably; missing ones are ignored."""
        try:
            for name in names:
                try:
                    os.unlink(self.path(container_id, name))
                except FileNotFoundError:
                    continue
        except OSError as error:
            raise HostError(f"remove files of {self.path(container_id)}", error) from None
        self._sync(self.path(container_id))

    def remove(self, container_id: str) -> None:
        """Remove the container's directory; ``creating`` and ``removing`` go last.

        If the daemon is killed on the way, the next one still sees that the container must go.
        """
        path = self.path(container_id)
        last = (CREATING, REMOVING)
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
        except OSError as error:
            raise HostError(f"remove {path}", error) from None
        self._sync(self.containers)

    def volume(self, name: str) -> str:
        """Return the directory of a named volume, created if missing."""
        path = f"{self.volumes}/{name}"
        try:
            os.makedirs(path, 0o755, exist_ok=True)
        except OSError as error:
            raise HostError(f"make {path}", error) from None
        return path

    def _replace(self, container_id: str, name: str, data: bytes) -> None:
        path = self.path(container_id, name)
        temporary = self.path(container_id, f"{_TEMPORARY}{secrets.token_hex(8)}")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
            sync_directory(self.path(container_id))
        except OSError as error:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise HostError(f"write {path}", error) from None

    def _sync(self, path: str) -> None:
        try:
            sync_directory(path)
        except OSError as error:
            raise HostError(f"sync {path}", error) from None
