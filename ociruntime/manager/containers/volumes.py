"""Named volumes: directories of files that outlive the containers that mount them.

    VOLUMES/NAME              a volume; container programs write below it
    VOLUMES/.removing-TOKEN   what is left of a volume whose removal has begun

A removal begins with a rename, so that a container created at the same time gets an empty volume
of the same name, never half of the old one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ociruntime.base.deep_tree import disk_usage
from ociruntime.base.errors import BadRequest, Conflict, HostError, NotFound
from ociruntime.manager.containers.spec import check_volume_name
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.removal import remove_tree

Answer = dict[str, Any]
# (a container's name, its spec), also of those that are being created; None for a corrupt record.
Users = Callable[[], Iterable[tuple[str, dict[str, Any] | None]]]

_REMOVING = ".removing-"
_MODE = 0o755
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Volumes:
    """The volumes in ``directory``; ``users`` lists the containers that may mount them."""

    def __init__(self, directory: str, users: Users) -> None:
        self.directory = directory
        self._users = users

    def path(self, name: str) -> str:
        """Return the directory of a volume, which may not exist."""
        return f"{self.directory}/{name}"

    def make(self, name: str) -> str:
        """Return the directory of a volume, created if missing.  Raises HostError."""
        path = self.path(name)
        try:
            os.mkdir(path, _MODE)
        except FileExistsError:
            pass
        except OSError as error:
            raise HostError(f'create volume "{name}"', error) from None
        return path

    def create(self, name: str | None) -> Answer:
        """Create a volume, or return the existing one of that name; None chooses a name.

        Raises BadRequest, HostError.
        """
        if name is None:
            name = secrets.token_hex(32)
        check_volume_name("name", name)
        self.make(name)
        return self._described(name, self._containers_by_volume())

    def find(self, filters: Mapping[str, list[str]]) -> list[Answer]:
        """Return all volumes, sorted by name.

        ``filters``: ``name`` (substring), ``dangling`` (whether no container uses it).  A volume
        must match one value of every filter.  Raises BadRequest, HostError.
        """
        for key, values in filters.items():
            if key not in _FILTERS:
                raise BadRequest(f"filters.{key}", "unknown filter", ", ".join(_FILTERS))
            for value in values:
                if key == "dangling" and value not in _BOOLEANS:
                    raise BadRequest("filters.dangling", f'must be true or false, not "{value}"')
        used = self._containers_by_volume()
        found = [self._described(name, used) for name in self._names()]
        return [
            one
            for one in found
            if all(any(_FILTERS[key](one, value) for value in filters[key]) for key in filters)
        ]

    def inspect(self, name: str) -> Answer:
        """Return one volume.  Raises NotFound."""
        if name.startswith(".") or "/" in name or not os.path.isdir(self.path(name)):
            raise NotFound(f'no volume named "{name}" found', "ocictl volume ls")
        return self._described(name, self._containers_by_volume())

    async def remove(self, name: str) -> None:
        """Remove a volume with its files.  Raises NotFound, Conflict if in use, HostError."""
        users = self.inspect(name)["containers"]
        if users:
            names = ", ".join(users)
            raise Conflict(f'remove volume "{name}": in use by {names}', "remove them first")
        self._refuse_unknown_users(f'remove volume "{name}"')
        self._detach(name)
        await asyncio.to_thread(self.clear)

    async def prune(self) -> Answer:
        """Remove all volumes that no container uses.

        Returns ``{"removed": [names], "space": bytes}``.  Raises HostError.
        """
        self._refuse_unknown_users("prune volumes")
        unused = [one["name"] for one in self.find({"dangling": ["true"]})]
        detached = [self._detach(name) for name in unused]
        space = await asyncio.to_thread(lambda: sum(map(disk_usage, detached)))
        await asyncio.to_thread(self.clear)
        return {"removed": unused, "space": space}

    def clear(self) -> None:
        """Finish all removals, also those of an earlier daemon.  Raises HostError."""
        try:
            parent = open_directory(self.directory)
            try:
                for name in os.listdir(parent):
                    if name.startswith(_REMOVING):
                        remove_tree(parent, name)
            finally:
                os.close(parent)
        except OSError as error:
            raise HostError(f"remove volumes in {self.directory}", error) from None

    def _refuse_unknown_users(self, what: str) -> None:
        for container, spec in self._users():
            if spec is None:
                reason = f'{what}: the record of container "{container}" is corrupt, so that the'
                raise Conflict(f"{reason} volumes it uses are unknown", f"ocictl rm -f {container}")

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.directory) as entries:
                return sorted(one.name for one in entries if one.is_dir() and one.name[0] != ".")
        except OSError as error:
            raise HostError(f"list {self.directory}", error) from None

    def _detach(self, name: str) -> str:
        detached = self.path(_REMOVING + secrets.token_hex(8))
        try:
            os.rename(self.path(name), detached)
        except OSError as error:
            raise HostError(f'remove volume "{name}"', error) from None
        return detached

    def _containers_by_volume(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for container, spec in self._users():
            for volume in (spec or {}).get("volumes") or ():
                users = found.setdefault(volume.get("name") or "", [])
                if container not in users:
                    users.append(container)
        return found

    def _described(self, name: str, used: Mapping[str, list[str]]) -> Answer:
        return {
            "name": name,
            "mountpoint": self.path(name),
            "containers": sorted(used.get(name, ())),
        }


_FILTERS: dict[str, Callable[[Answer, str], bool]] = {
    "name": lambda one, value: value in one["name"],
    "dangling": lambda one, value: _BOOLEANS[value] != bool(one["containers"]),
}
