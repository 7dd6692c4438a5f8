"""Resolve the mounts of a new container: from its spec, its image and ``volumes_from``.

Mounts are resolved once, when the container is created.  The member ``volumes`` of the container's
spec then lists all of them, each with a host path or the name of a volume.
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
# Name or id of a container -> (its mounts, the names of its anonymous volumes).
Inherit = Callable[[str], tuple[list[Spec], list[str]]]

MOST_OF_IMAGE = 1000  # the maximum number of volumes that an image may declare


@dataclass
class Mounts:
    """All mounts of a container; ``volumes`` becomes the member ``volumes`` of its spec.

    ``generated`` lists the names of the container's new anonymous volumes, ``inherited`` the
    anonymous volumes that it shares through ``volumes_from``.  ``others`` lists the mount points of
    its tmpfs mounts.
    """

    volumes: list[Spec] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)
    inherited: list[str] = field(default_factory=list)
    others: frozenset[str] = frozenset()

    @property
    def targets(self) -> set[str]:
        """The normalized mount points of all volumes, bind mounts and tmpfs mounts."""
        return {clean(mount["target"]) for mount in self.volumes} | self.others

    @property
    def anonymous(self) -> list[str]:
        """The names of all anonymous volumes of the container, generated or inherited."""
        return [*self.generated, *self.inherited]

    def add_anonymous(self, mount: Spec) -> None:
        """Add a mount of a new anonymous volume; generate the volume's name.

        ``mount`` contains the mount's members except the name.
        """
        name = secrets.token_hex(32)
        self.volumes.append({"name": name, **mount})
        self.generated.append(name)


def of_request(spec: Spec, inherit: Inherit) -> Mounts:
    """Return the mounts of a valid spec, without the volumes that its image declares.

    A mount in ``volumes`` or ``tmpfs`` overrides a mount from ``volumes_from`` at the same path.
    ``inherit(container)`` returns (mounts, names of anonymous volumes) of a container in
    ``volumes_from``.  Raises BadRequest if a mount in ``volumes`` has the same path as another one
    or as a tmpfs mount.  Also raises the errors of ``inherit``.
    """
    mounts = Mounts(others=frozenset(clean(other["target"]) for other in spec.get("tmpfs") or ()))
    for index, mount in enumerate(spec.get("volumes") or ()):
        if clean(mount["target"]) in mounts.targets:
            raise BadRequest(
                f"volumes[{index}].target", f'two mounts have the mount point "{mount["target"]}"'
            )
        if "name" in mount or "source" in mount:
            mounts.volumes.append(mount)
        else:
            mounts.add_anonymous(mount)
    for other in spec.get("volumes_from") or ():
        mounts_of_other, anonymous = inherit(other["container"])
        taken = mounts.targets
        for mount in mounts_of_other:
            if clean(mount["target"]) in taken:
                continue
            # Do not copy the image's files: the other container has filled the volume already.
            read_only = {"read_only": True} if other.get("read_only") else {}
            copied = {**mount, **read_only}
            if name := mount.get("name"):
                copied["no_copy"] = True
                if name in anonymous and name not in mounts.inherited:
                    mounts.inherited.append(name)
            mounts.volumes.append(copied)
    return mounts


def add_image(mounts: Mounts, paths: Iterable[str]) -> None:
    """Add an anonymous volume at each of ``paths``, the volumes that an image declares.

    Skips the paths that are mount points in ``mounts``.  Raises ManagerError for a path that cannot
    be a mount point, or for more than 1000 paths.
    """
    declared = list(paths)
    if len(declared) > MOST_OF_IMAGE:
        message = (
            f"create a container: the image declares {len(declared)} volumes: "
            f"at most {MOST_OF_IMAGE} are supported"
        )
        raise ManagerError(message)
    taken = mounts.targets
    for path in declared:
        try:
            volumes.target(f'"{path}"', path)
        except BadRequest as error:
            raise ManagerError(
                f"create a container: the image declares an invalid volume: {error}"
            ) from None
        if clean(path) not in taken:
            mounts.add_anonymous({"target": clean(path)})
            taken.add(clean(path))
