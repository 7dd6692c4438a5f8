"""A namespace given by path may be the runtime's own: what is set in it is set on the host."""

from __future__ import annotations

import posix

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.sysctl import owner, sysctl_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import Config

_FILES = {"network": "net"}  # /proc/self/ns/; else the name of the kind


def check_settings(config: Config) -> None:
    """Raise ConfigError for a name or a kernel parameter that would be the host's (A-36, A-82)."""
    linux = config.get("linux", {})
    paths = {one["type"]: one["path"] for one in linux.get("namespaces", []) if one.get("path")}
    own = {kind for kind, path in paths.items() if _is_own(kind, path)}
    if not own:
        return
    settings = [
        (f'linux.sysctl["{key}"]', owner(sysctl_path(key))) for key in linux.get("sysctl", {})
    ]
    settings += [(name, "uts") for name in ("hostname", "domainname") if config.get(name)]
    for where, kind in settings:
        if kind in own:
            message = f"would change the host: {paths[kind]} is the runtime's own {kind} namespace"
            raise ConfigError(where, message)


def _is_own(kind: str, path: str) -> bool:
    try:
        given, own = posix.stat(path), posix.stat(f"/proc/self/ns/{_FILES.get(kind, kind)}")
    except OSError:
        return False  # joining it will say what is wrong
    return (given.st_dev, given.st_ino) == (own.st_dev, own.st_ino)
