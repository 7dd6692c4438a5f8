"""Volumes: directories that outlive the containers that mount them.

    VOLUMES/NAME              a volume; container programs write below it
    VOLUMES/.record-NAME      {"created_at", "labels", "anonymous"}; a volume without a record is a
                              named volume that an administrator or an older daemon has made
    VOLUMES/.removing-TOKEN   a volume whose removal has begun
    VOLUMES/.copying-NAME, .filling-NAME   see pods/bundle/filled_volume.py

A removal begins with a rename: a container created at the same time gets an empty volume of the
same name, never a partly removed volume.  A volume's record is written before the volume is
created, and removed after the rename.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.deep_tree import disk_usage
from ociruntime.base.errors import Conflict, HostError, NotFound, RuntimeFailure
from ociruntime.base.files import remove_file, replace_file
from ociruntime.manager.containers.container_spec import check_volume_name
from ociruntime.manager.containers.list_filters import (
    DANGLING,
    LABEL,
    NAME,
    Filter,
    check_filters,
    passes,
)
from ociruntime.pods.bundle import filled_volume
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.remove_tree import remove_tree

Answer = dict[str, Any]
# (name, spec) of each container, also while it is being created; spec is None if the record is
# corrupt.
Users = Callable[[], Iterable[tuple[str, dict[str, Any] | None]]]

_RECORD = ".record-"
_REMOVING = ".removing-"
_MODE = 0o755


class Volumes:
    """The volumes in ``directory``.

    ``users()`` yields each container's name and spec, which lists the volumes that it uses; the
    spec is None if the container's record is corrupt.
    """

    def __init__(self, directory: str, users: Users) -> None:
        self.directory = directory
        self._users = users

    def path(self, name: str) -> str:
        """Return the path of the volume ``name``, whether it exists or not."""
        return f"{self.directory}/{name}"

    def make(
        self, name: str, *, anonymous: bool = False, labels: Mapping[str, str] | None = None
    ) -> str:
        """Create the volume ``name``, unless it exists; return its path.

        Raises HostError if it cannot be created.
        """
        path = self.path(name)
        if os.path.isdir(path):
            return path
        record = {"created_at": json_files.now(), "labels": labels or {}, "anonymous": anonymous}
        try:
            replace_file(self.path(_RECORD + name), json_files.text_of(record), 0o640, lasting=True)
            os.mkdir(path, _MODE)
        except OSError as error:
            raise HostError(f'create volume "{name}"', error) from None
        return path

    def create(self, name: str | None, labels: Mapping[str, str] | None = None) -> Answer:
        """Create a volume, unless it exists; return what ``inspect`` returns.

        If ``name`` is None, the volume is anonymous and gets a generated name, as in docker.
        Raises BadRequest for an invalid name, HostError if the volume cannot be created.
        """
        anonymous = name is None
        if name is None:
            name = secrets.token_hex(32)
        check_volume_name("name", name)
        self.make(name, anonymous=anonymous, labels=labels)
        return self._described(name, self._containers_by_volume())

    def find(self, filters: Mapping[str, list[str]]) -> list[Answer]:
        """Return the volumes that match ``filters``, sorted by name.

        ``filters`` maps the name of a filter to its values: ``name`` (substring), ``dangling``
        (true: no container uses it), ``label`` (``NAME`` or ``NAME=VALUE``).  A volume must match
        at least one value of each filter.  Raises BadRequest for an invalid filter, HostError if
        the volumes cannot be read.
        """
        check_filters(filters, _FILTERS)
        used = self._containers_by_volume()
        volumes = [self._described(name, used) for name in self._names()]
        return [volume for volume in volumes if passes(volume, filters, _FILTERS)]

    def inspect(self, name: str) -> Answer:
        """Return a volume's name, path, labels and the containers that use it, as JSON.

        Raises NotFound if there is no such volume.
        """
        if name.startswith(".") or "/" in name or not os.path.isdir(self.path(name)):
            hint = "list volumes with ocictl volume ls"
            raise NotFound(f'no volume named "{name}" found', hint)
        return self._described(name, self._containers_by_volume())

    async def remove(self, name: str) -> None:
        """Remove a volume with its files.

        Raises NotFound if the volume does not exist.  Raises Conflict if a container uses it, or
        may use it, because the container's record is corrupt.  Raises HostError if the volume
        cannot be removed.
        """
        users = self.inspect(name)["containers"]
        if users:
            names = ", ".join(users)
            raise Conflict(
                f'remove volume "{name}": in use by container {names}',
                "remove the containers first",
            )
        self._refuse_unknown_users(f'remove volume "{name}"')
        self._detach(name)
        await asyncio.to_thread(self.clear)

    async def remove_with_container(self, container: str, names: Collection[str]) -> None:
        """Remove the volumes among ``names`` that no container except ``container`` uses.

        If any container's record is corrupt, removes none, because that container may use them.
        Raises HostError if a volume cannot be removed.
        """
        try:
            self._refuse_unknown_users("")
        except Conflict:
            return
        used = self._containers_by_volume()
        unused = [name for name in names if set(used.get(name, ())) <= {container}]
        for name in unused:
            if os.path.isdir(self.path(name)):
                self._detach(name)
        if unused:
            await asyncio.to_thread(self.clear)

    async def prune(self, filters: Mapping[str, list[str]], *, named: bool = False) -> Answer:
        """Remove the unused anonymous volumes; with ``named``, all unused volumes.

        ``filters`` may contain ``label``.  Returns ``{"removed": [names], "space": bytes freed}``.
        Raises BadRequest for an invalid filter, Conflict if a container's record is corrupt,
        HostError if a volume cannot be removed.
        """
        check_filters(filters, {"label": LABEL})
        self._refuse_unknown_users("prune volumes")
        volumes = self.find({**filters, "dangling": ["true"]})
        unused = [volume["name"] for volume in volumes if named or volume["anonymous"]]
        detached = [self._detach(name) for name in unused]
        space = await asyncio.to_thread(lambda: sum(map(disk_usage, detached)))
        await asyncio.to_thread(self.clear)
        return {"removed": unused, "space": space}

    def clear(self) -> None:
        """Delete the files of all volumes whose removal has begun (``.removing-*``).

        Raises HostError if a file cannot be removed.
        """
        try:
            parent = open_directory(self.directory)
            try:
                for name in os.listdir(parent):
                    if name.startswith(_REMOVING):
                        remove_tree(parent, name)
            finally:
                os.close(parent)
        except OSError as error:
            raise HostError(f'remove volumes in "{self.directory}"', error) from None

    def settle(self) -> None:
        """Clean up after a killed daemon: complete removals of volumes, undo incomplete fills.

        Raises HostError if a file cannot be removed.
        """
        self.clear()
        filled_volume.settle(self.directory)
        for name in os.listdir(self.directory):
            # A killed daemon may leave a record without a volume, or a record's temporary file.
            is_orphan = name.startswith(_RECORD) and not os.path.isdir(
                self.path(name.removeprefix(_RECORD))
            )
            if is_orphan or name.startswith(f".{_RECORD}"):
                remove_file(self.path(name))

    def _refuse_unknown_users(self, action: str) -> None:
        for container, spec in self._users():
            if spec is None:
                reason = f'{action}: the record of container "{container}" is corrupt:'
                hint = f"remove the container with ocictl rm -f {container}"
                raise Conflict(f"{reason} its volumes are unknown", hint)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.directory) as entries:
                return sorted(
                    entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."
                )
        except OSError as error:
            raise HostError(f'list the volumes in "{self.directory}"', error) from None

    def _detach(self, name: str) -> str:
        """Begin a volume's removal: rename the directory, then remove the volume's record.

        Returns the new path of the directory.  Raises HostError if the directory cannot be renamed
        or the record cannot be removed.
        """
        detached = self.path(_REMOVING + secrets.token_hex(8))
        try:
            os.rename(self.path(name), detached)
            remove_file(self.path(_RECORD + name))
        except OSError as error:
            raise HostError(f'remove volume "{name}"', error) from None
        return detached

    def _containers_by_volume(self) -> dict[str, list[str]]:
        containers: dict[str, list[str]] = {}
        for container, spec in self._users():
            for volume in (spec or {}).get("volumes") or ():
                users = containers.setdefault(volume.get("name") or "", [])
                if container not in users:
                    users.append(container)
        return containers

    def _described(self, name: str, used: Mapping[str, list[str]]) -> Answer:
        try:
            record = json_files.read(self.path(_RECORD + name))
        except RuntimeFailure:
            record = {}
        return {
            "name": name,
            "mountpoint": self.path(name),
            "anonymous": record.get("anonymous") is True,
            "created_at": record.get("created_at"),
            "labels": record.get("labels") or {},
            "containers": sorted(used.get(name, ())),
        }


_FILTERS: dict[str, Filter] = {
    "name": NAME,
    "dangling": DANGLING,
    "label": LABEL,
}
