"""`exec --cgroup`: select the child of the container's cgroup in which a process starts.

The option's syntax is runc's: ``PATH`` for every hierarchy, or ``CONTROLLER[,CONTROLLER]:PATH`` for
the hierarchy of a controller (may be repeated).  Paths are relative to the container's cgroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement


def below(cgroup: Cgroup, options: Sequence[str]) -> Cgroup:
    """Return the child of a container's cgroup that ``options`` select.

    ``options`` are the values of ``exec --cgroup``.  Does not check whether that child cgroup
    exists.  Raises UsageError for a malformed value, an unknown controller, or different paths for
    the controllers of one v1 hierarchy.
    """
    paths = parse(options)
    controllers = {"": True}
    placements = []
    for each in cgroup.placements:
        hierarchy = each.hierarchy
        names = [*hierarchy.controllers] if hierarchy.version == 1 else []
        if hierarchy.name:
            names.append(f"name={hierarchy.name}")
        controllers.update(dict.fromkeys(names, True))
        named = [paths[name] for name in names if name in paths]
        if any(path != named[0] for path in named):
            raise UsageError(
                f"--cgroup: the controllers {','.join(names)} share one cgroup v1 hierarchy and"
                " cannot have different paths"
            )
        path = named[0] if named else paths.get("", "")
        placements.append(Placement(hierarchy, cgroup.path + path))
    for name in paths:
        if name not in controllers:
            raise UsageError(
                f'--cgroup: no cgroup v1 hierarchy has the controller "{name}"',
                "on cgroup v2, use --cgroup PATH without a controller",
            )
    if cgroup.unit:
        from ociruntime.runtime.cgroups.systemd_group import SystemdCgroup

        if isinstance(cgroup, SystemdCgroup):
            return cgroup.inside(placements, paths.get("", ""))
    return Cgroup(cgroup.path, placements)


def parse(options: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``exec --cgroup``; return {controller: path}.

    The key "" stands for all controllers.  A path is "" (the container's own cgroup) or begins with
    "/".  Raises UsageError if a value is malformed, or a controller is given twice.
    """
    paths: dict[str, str] = {}
    for text in options:
        head, colon, path = text.rpartition(":")
        if ":" in head:
            raise UsageError(
                f'--cgroup "{text}": has more than one colon', "use PATH or CONTROLLER:PATH"
            )
        if not colon and len(options) > 1:
            raise UsageError(
                f'--cgroup "{text}": a repeated --cgroup needs a controller', "use CONTROLLER:PATH"
            )
        for name in head.split(","):
            if colon and not name:
                raise UsageError(
                    f'--cgroup "{text}": the name of the controller is empty', "use CONTROLLER:PATH"
                )
            if name in paths:
                raise UsageError(f'--cgroup "{text}": the controller "{name}" is given twice')
            paths[name] = _clean(path, text)
    return paths


def _clean(path: str, text: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\n" in path:
        raise UsageError(
            f'--cgroup "{text}": the path must stay below the container\'s cgroup',
            'remove ".." or the newline',
        )
    return "".join(f"/{part}" for part in parts)
