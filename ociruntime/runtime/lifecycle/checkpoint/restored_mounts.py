"""Find the flags that the mounts of a restored container lack.

Required are those recorded at the checkpoint and those of config.json: neither a bug of CRIU nor
images from an untrusted source make a mount writable. So the record may add flags, and name the
bind mount of config.json that a mount is; the kernel must confirm that it has the same source.
"""

from __future__ import annotations

from ociruntime.base.errors import StepError
from ociruntime.base.paths import clean, is_below
from ociruntime.runtime.lifecycle.checkpoint.external_mounts import find_mount
from ociruntime.runtime.plan.mount_options import parse_mount_options
from ociruntime.runtime.plan.mounts import is_bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from ociruntime.base.mountinfo import Mount
    from ociruntime.runtime.lifecycle.checkpoint.external_mounts import Identity
    from ociruntime.runtime.spec.document import Config

# Mount options in mountinfo -> MOUNT_ATTR_*.
RESTRICTIONS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8}
ALL_RESTRICTIONS = 15


def shown_at(pid: int, mounts: Sequence[Mount]) -> dict[str, Identity | None]:
    """Return the mount at each target of a process's mounts; None for one that is not visible.

    Raises StepError if a target leads elsewhere, though no later mount covers it.
    """
    shown: dict[str, Identity | None] = {}
    for index, mount in enumerate(mounts):
        found = find_mount(pid, mount.target)
        shown[mount.target] = found[1] if found else None
        covered = any(is_below(mount.target, later.target) for later in mounts[index + 1 :])
        if found and not covered:
            check_restricted(mount.target, found[0], mounts)
    return shown


def wanted_flags(
    recorded: Iterable[Sequence[str]],
    config: Config,
    shown: Mapping[str, Identity | None],
    sources: Mapping[str, Identity | None],
    nodes: Set[Identity],
) -> dict[str, int]:
    """Target -> MOUNT_ATTR_*.

    ``recorded`` are the mounts of an ImageRecord, ``shown`` what is at each target, ``sources``
    what each bind mount of config.json, by its destination, shows.  ``nodes`` are the
    host's own device nodes, with which CRIU covers masked paths and devices: unless config.json
    binds one, they must not be changed through the mount.
    """
    asked = {}
    for index, mount in enumerate(config.get("mounts") or []):
        if is_bind(mount) is not None:
            options = parse_mount_options(mount.get("options") or (), f"mounts[{index}]")
            flags = (options.set | options.set_recursive) & ALL_RESTRICTIONS
            asked[clean(mount["destination"])] = flags
    names: dict[str, str] = {}
    wanted: dict[str, int] = {}
    for name, target, had in recorded:
        names[target] = name
        wanted[target] = _flags(had, RESTRICTIONS) | asked.get(name, 0)
    for target, what in shown.items():
        if what is None or target == "/":  # the root is no mount of config.json's
            continue
        same = [where for where, source in sources.items() if source == what]
        if what in nodes and not same:
            wanted[target] = wanted.get(target, 0) | RESTRICTIONS["ro"]
        for one in (target, names.get(target)):
            if one in same:
                same = [one]
        for where in same:
            wanted[target] = wanted.get(target, 0) | asked.get(where, 0)
    return wanted


def unmet(mounts: list[Mount], wanted: dict[str, int]) -> dict[str, int]:
    """Target -> the MOUNT_ATTR_* that a mount there lacks."""
    found: dict[str, int] = {}
    for mount in mounts:
        lacks = wanted.get(mount.target, 0) & ~_flags(mount.options, RESTRICTIONS)
        if lacks:
            found[mount.target] = found.get(mount.target, 0) | lacks
    return found


def check_restricted(target: str, number: int, mounts: Iterable[Mount]) -> None:
    """Raise StepError unless the mount with this id is one that mountinfo shows at ``target``.

    A path can lead elsewhere: over a mount that covers it, or because a directory on the way is
    shared with a container that exchanges it.
    """
    if all(mount.id != number for mount in mounts if mount.target == target):
        raise StepError(
            f'restrict the restored mount at "{target}": the path leads to another mount',
            "a mount of the checkpoint is covered by another, or something exchanges a directory",
        )


def _flags(options: str, table: dict[str, int]) -> int:
    return sum(table.get(word, 0) for word in set(options.split(",")))
