"""Default directories, and pure functions on paths, which do not access the filesystem."""

from __future__ import annotations

DATA = "/var/lib/ociruntime"
SYSTEM_CONFIG = "/usr/lib/ociruntime"
LOCAL_CONFIG = "/etc/ociruntime"


def clean(path: str) -> str:
    """Make a path absolute and remove empty, ``.`` and ``..`` components; ``..`` stops at the root.

    A relative path is resolved from the root, as config.md requires for mount destinations.
    """
    if path.startswith("/") and "//" not in path and "/." not in path:
        return path.rstrip("/") or "/"
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def is_below(path: str, directory: str) -> bool:
    """Return whether ``path`` is strictly below ``directory``, both as returned by ``clean``."""
    return path != directory and (directory == "/" or path.startswith(directory + "/"))
