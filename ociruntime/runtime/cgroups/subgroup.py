"""A cgroup below the container's own, for a process that `exec` starts there.

``--cgroup`` names it as runc does: ``PATH`` in every hierarchy, or ``CONTROLLER[,CONTROLLER]:PATH``
in that of a controller, once for each.  A path begins at the container's cgroup.
"""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cgroups.group import Cgroup
from ociruntime.runtime.cgroups.placement import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def below(cgroup: Cgroup, wanted: Sequence[str]) -> Cgroup:
    """Return the cgroup for the process, without checking that it exists.  Raises UsageError."""
    paths = parse(wanted)
    known = {"": True}
    placements = []
    for each in cgroup.placements:
        hierarchy = each.hierarchy
        names = [*hierarchy.controllers] if hierarchy.version == 1 else []
        if hierarchy.name:
            names.append(f"name={hierarchy.name}")
        known.update(dict.fromkeys(names, True))
        named = [paths[name] for name in names if name in paths]
        if any(path != named[0] for path in named):
            raise UsageError(
                f"--cgroup: {','.join(names)} are one hierarchy and cannot take different paths"
            )
        path = named[0] if named else paths.get("", "")
        placements.append(Placement(hierarchy, cgroup.path + path))
    for name in paths:
        if name not in known:
            raise UsageError(
                f'--cgroup: no cgroup v1 hierarchy has the controller "{name}"',
                "on cgroup v2 give a path alone",
            )
    if cgroup.unit:
        from ociruntime.runtime.cgroups.systemd_group import SystemdCgroup

        if isinstance(cgroup, SystemdCgroup):
            return cgroup.inside(placements, paths.get("", ""))
    return Cgroup(cgroup.path, placements)


def parse(wanted: Sequence[str]) -> dict[str, str]:
    """Return the paths by controller ("" for all); a path is "" or absolute.  Raises UsageError."""
    paths: dict[str, str] = {}
    for text in wanted:
        head, colon, path = text.rpartition(":")
        if ":" in head:
            raise UsageError(f"--cgroup {text}: has more than one colon")
        if not colon and len(wanted) > 1:
            raise UsageError(f"--cgroup {text}: lacks its controller", "CONTROLLER:PATH")
        for name in head.split(","):
            if colon and not name:
                raise UsageError(f"--cgroup {text}: the controller is empty")
            if name in paths:
                raise UsageError(f'--cgroup {text}: the controller "{name}" is given twice')
            paths[name] = _clean(path, text)
    return paths


def _clean(path: str, text: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\n" in path:
        raise UsageError(f"--cgroup {text}: leads out of the container's cgroup")
    return "".join(f"/{part}" for part in parts)
