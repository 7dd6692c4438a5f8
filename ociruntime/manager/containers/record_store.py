"""The manager's directory: one directory a container, whose files are replaced whole.

ROOT/lock                            held by the daemon
ROOT/events.jsonl, events.jsonl.1    events.py
ROOT/volumes/NAME                    volumes with names
ROOT/containers/ID/container.state   record.py
ROOT/containers/ID/creating          there until all of the container is
ROOT/containers/ID/replacing         while it gets another pod: {"old": [UUIDs], "pod", "moving"}
ROOT/containers/ID/removing          it is being removed
ROOT/containers/ID/pod               the UUID of the pod that is being made
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, ManagerError
from ociruntime.base.trusted import make_directory
from ociruntime.manager.containers import record as records
from ociruntime.pods.store.pod import sync_directory

if TYPE_CHECKING:
    from ociruntime.manager.containers.record import Record

STATE = "container.state"
CREATING = "creating"
REPLACING = "replacing"
REMOVING = "removing"
POD = "pod"
_TEMPORARY = ".tmp-"


class RecordStore:
    """``root`` is made if need be (mode 0750).  Methods raise HostError."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.containers = f"{root}/containers"
        self.volumes = f"{root}/volumes"
        self._lock = -1

    def open(self) -> None:
        """Raises ManagerError if another daemon has it, HostError."""
        for path in (self.root, self.containers, self.volumes):
            make_directory(os.path.abspath(path), 0o750, "data directory")
        try:
            self._lock = os.open(f"{self.root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ManagerError(
                f"another ocid has {self.root}", "--root gives this one a directory of its own"
            ) from None
        except OSError as error:
            self.close()
            raise HostError(f"open {self.root}", error) from None

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def path(self, container_id: str, name: str = "") -> str:
        """Of a container's directory, or of a file in it."""
        directory = f"{self.containers}/{container_id}"
        return f"{directory}/{name}" if name else directory

    def ids(self) -> list[str]:
        """Of all containers there are directories of; what was written half is removed."""
        try:
            found = sorted(entry.name for entry in os.scandir(self.containers) if entry.is_dir())
            for container_id in found:
                for name in os.listdir(self.path(container_id)):
                    if name.startswith(_TEMPORARY):
                        os.unlink(self.path(container_id, name))
        except OSError as error:
            raise HostError(f"look through {self.containers}", error) from None
        return found

    def has(self, container_id: str, name: str) -> bool:
        return os.path.lexists(self.path(container_id, name))

    def is_empty(self, container_id: str) -> bool:
        """Whether nothing is in its directory, as after a kill just when it was made or removed."""
        try:
            return not os.listdir(self.path(container_id))
        except OSError as error:
            raise HostError(f"list {self.path(container_id)}", error) from None

    def begin(self, container_id: str) -> None:
        """A directory for a new container, with ``creating`` in it."""
        try:
            os.mkdir(self.path(container_id), 0o750)
        except OSError as error:
            raise HostError(f"make {self.path(container_id)}", error) from None
        self.note(container_id, CREATING, {})
        self._sync(self.containers)

    def save(self, record: Record) -> None:
        """From now on, and after a power failure, this is the record."""
        self._replace(record.id, STATE, records.to_text(record))

    def load(self, container_id: str) -> Record:
        """Raises ManagerError: the file is not there, or damaged."""
        path = self.path(container_id, STATE)
        try:
            with open(path, "rb") as file:
                found = records.from_text(file.read())
        except OSError as error:
            raise ManagerError(f"read {path}: {(error.strerror or '').lower()}") from None
        except ManagerError as error:
            raise ManagerError(f"{path}: {error}") from None
        if found.id != container_id:
            raise ManagerError(f"{path}: it is the record of {found.id}")
        return found

    def note(self, container_id: str, name: str, value: dict[str, Any]) -> None:
        """Put ``value`` into a file of the container, for good."""
        self._replace(container_id, name, json.dumps(value).encode() + b"\n")

    def noted(self, container_id: str, name: str) -> dict[str, Any]:
        """What ``note`` has put there; empty if there is nothing that could be understood."""
        try:
            with open(self.path(container_id, name), "rb") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def new_pod(self, container_id: str) -> str:
        """What ``--uuid-file-save`` has written; empty if it did not come so far."""
        try:
            with open(self.path(container_id, POD), encoding="ascii", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def pods_noted(self, container_id: str) -> list[str]:
        """UUIDs of pods that it has had, or was about to have."""
        noted = self.noted(container_id, REPLACING)
        found = [*noted.get("old", ()), noted.get("pod"), self.new_pod(container_id)]
        return list(dict.fromkeys(str(uuid) for uuid in found if uuid))

    def forget(self, container_id: str, *names: str) -> None:
        """Remove these files, for good, if they are there."""
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
        """The container's directory; the files that say what is to become of it go last."""
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
        """The directory of a volume with a name, made if need be."""
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
