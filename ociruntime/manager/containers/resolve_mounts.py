"""The mounts of a new container: anonymous volumes, those of its image, those of other containers.

A request is resolved once, when its container is created.  The member ``volumes`` of the result
lists all mounts, each with the path of a host's file or the name of a volume; restarts, other
containers and the list of a volume's users need nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ociruntime.base.errors import BadRequest, ManagerError
from ociruntime.base.paths import clean
from ociruntime.pods.manifest import volumes

Spec = dict[str, Any]
# A container's reference -> its mounts, and the names of its anonymous volumes.
Inherit = Callable[[str], tuple[list[Spec], list[str]]]

MOST_OF_IMAGE = 1000  # volumes that an image may declare


@dataclass
class Mounts:
    """All mounts of a container: ``spec["volumes"]``.

    ``generated`` are the names of its own anonymous volumes, ``inherited`` those of the containers
    that it shares volumes with.  ``others`` are the paths at which a tmpfs is mounted.
    """

    volumes: list[Spec] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)
    inherited: list[str] = field(default_factory=list)
    others: frozenset[str] = frozenset()

    @property
    def targets(self) -> set[str]:
        return {clean(mount["target"]) for mount in self.volumes} | self.others

    @property
    def anonymous(self) -> list[str]:
        return [*self.generated, *self.inherited]

    def add_anonymous(self, mount: Spec) -> None:
        name = secrets.token_hex(32)
        self.volumes.append({"name": name, **mount})
        self.generated.append(name)


def of_request(spec: Spec, inherit: Inherit) -> Mounts:
    """Return the mounts that a checked request asks for, without those of its image.

    A mount of its own replaces one of another container at the same path.  Raises BadRequest if
    two of its own have the same path, and what ``inherit`` raises.
    """
    mounts = Mounts(others=frozenset(clean(one["target"]) for one in spec.get("tmpfs") or ()))
    for index, mount in enumerate(spec.get("volumes") or ()):
        if clean(mount["target"]) in mounts.targets:
            raise BadRequest(f"volumes[{index}].target", f'"{mount["target"]}" is mounted twice')
        if "name" in mount or "source" in mount:
            mounts.volumes.append(mount)
        else:
            mounts.add_anonymous(mount)
    for one in spec.get("volumes_from") or ():
        given, anonymous = inherit(one["container"])
        taken = mounts.targets
        for mount in given:
            if clean(mount["target"]) in taken:
                continue
            # The other container was there first: it has filled the volume.
            read_only = {"read_only": True} if one.get("read_only") else {}
            copied = {**mount, **read_only}
            if name := mount.get("name"):
                copied["no_copy"] = True
                if name in anonymous and name not in mounts.inherited:
                    mounts.inherited.append(name)
            mounts.volumes.append(copied)
    return mounts


def add_image(mounts: Mounts, paths: Iterable[str]) -> None:
    """Add an anonymous volume for each path that an image declares, unless it is mounted already.

    Raises ManagerError for a path that cannot be mounted, or too many of them.
    """
    wanted = list(paths)
    if len(wanted) > MOST_OF_IMAGE:
        message = f"the image declares {len(wanted)} volumes: at most {MOST_OF_IMAGE} are possible"
        raise ManagerError(message)
    taken = mounts.targets
    for path in wanted:
        try:
            volumes.target("its volume", path)
        except BadRequest as error:
            raise ManagerError(f"the image cannot be used: {error}") from None
        if clean(path) not in taken:
            mounts.add_anonymous({"target": clean(path)})
            taken.add(clean(path))
