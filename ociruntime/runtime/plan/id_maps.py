"""The maps of id-mapped mounts, made before any other operation.

The kernel takes maps as a user namespace. The process that makes it must have privileges in the
parent of the container's user namespace and where the source was mounted, and must not be visible
to processes of a joined pid namespace: both hold only at the very beginning of the plan.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWUSER
from ociruntime.runtime.plan import operations
from ociruntime.runtime.plan.mounts import is_bind, is_id_mapped
from ociruntime.runtime.plan.ops import NO_SLOT, SLOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.plan.compilation import Compilation
    from ociruntime.runtime.spec.document import IdMapping, Mount


def compile_id_maps(job: Compilation, joined: int) -> None:
    """Make each distinct pair of maps once; ``joined`` is the slot of a user namespace to join.

    Raises ConfigError for a mount whose ids cannot be mapped.
    """
    made: dict[tuple[str, str], int] = {}
    for index, mount in enumerate(job.config.get("mounts") or ()):
        if not is_id_mapped(mount):
            continue
        where = f"mounts[{index}]"
        _check(job, mount, where)
        if is_bind(mount) is None and (job.new | job.joined) & CLONE_NEWUSER:
            continue  # made in that namespace, a filesystem has its ids already
        if mount.get("uidMappings"):
            maps = _lines(mount.get("uidMappings")), _lines(mount.get("gidMappings"))
        elif joined != NO_SLOT:
            job.id_maps[index] = joined
            continue
        else:
            maps = _lines(job.linux.get("uidMappings")), _lines(job.linux.get("gidMappings"))
        if maps not in made:
            made[maps] = job.take_slot()
            job.add(
                operations.id_map(slot=made[maps], uid_map=maps[0], gid_map=maps[1], where=where)
            )
        job.id_maps[index] = made[maps]
    if job.next_slot + len(job.id_maps) > SLOTS:
        raise ConfigError("mounts", f"more than {SLOTS} id-mapped mounts and maps for them")


def _check(job: Compilation, mount: Mount, where: str) -> None:
    if "remount" in (mount.get("options") or ()):
        raise ConfigError(where, "the ids of a mount that is there already cannot be mapped")
    if mount.get("type") in ("cgroup", "cgroup2") and is_bind(mount) is None:
        raise ConfigError(where, "the ids of a cgroup mount cannot be mapped")
    if is_bind(mount) is not None:
        if job.facts.uid != 0:
            hint = "CAP_SYS_ADMIN in the user namespace that its filesystem was mounted in"
            raise ConfigError(where, "only root can map the ids of a bind mount", hint)
    elif mount.get("uidMappings") and (job.new | job.joined) & CLONE_NEWUSER:
        raise ConfigError(
            f"{where}.uidMappings",
            "a filesystem made in the container's user namespace has that namespace's ids",
            "leave the mappings out, or bind one that is mounted on the host",
        )


def _lines(mappings: list[IdMapping] | None) -> str:
    """Format the mappings for a uid_map or gid_map."""
    return "".join(
        f"{entry['containerID']} {entry['hostID']} {entry['size']}\n" for entry in mappings or ()
    )
