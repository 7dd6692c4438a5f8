"""Resolution of ``linux.cgroupsPath`` to a path below the mount point of every hierarchy.

The spec's rules (config-linux.md, cgroups path): an absolute value counts from the mount
point; a relative one may be put anywhere, but the same value always in the same place.
Here both count from the mount point, and an absent one is ``/ID``.  The caller's own
cgroup plays no part, because ``create`` and ``delete`` may come from different ones.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

WHERE = "linux.cgroupsPath"
_LONGEST_NAME = 255


def resolve(cgroups_path: str | None, container_id: str) -> str:
    """Return the container's path in every hierarchy: ``/a/b``, normalized, never ``/``.

    Raises ConfigError.
    """
    if not cgroups_path:
        return "/" + container_id
    if "\0" in cgroups_path or "\n" in cgroups_path:
        raise ConfigError(WHERE, f"{cgroups_path!r} holds a NUL or a newline")
    parts = [part for part in cgroups_path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ConfigError(WHERE, f'"{cgroups_path}" must not contain ".."')
    if not parts:
        raise ConfigError(WHERE, f'"{cgroups_path}" is the root cgroup', "name one below it")
    for part in parts:
        if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
            raise ConfigError(WHERE, f'"{part}" is longer than {_LONGEST_NAME} bytes')
    return "/" + "/".join(parts)


def is_systemd_form(cgroups_path: str) -> bool:
    """Return whether the path is ``slice:prefix:name``, which only the systemd driver supports."""
    return not cgroups_path.startswith("/") and cgroups_path.count(":") == 2


def components(path: str) -> list[str]:
    """Return the directories from the mount point down: ``["/a", "/a/b"]`` for ``/a/b``."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
