"""Settings that the specification allows and that are not carried out yet.

They are refused: a container without a setting it asked for may be less confined than its
author believes.
"""

from __future__ import annotations

from ociruntime.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation


def refuse_unsupported(job: Compilation) -> None:
    """Raise ConfigError for the first of them."""
    if job.linux.get("netDevices"):
        raise ConfigError("linux.netDevices", "is not supported yet")
    # An empty object asks for something, too: a group with the container's id.
    if "intelRdt" in job.linux:
        raise ConfigError("linux.intelRdt", "is not supported yet")
    if job.linux.get("mountLabel"):
        if not job.facts.selinux:
            raise ConfigError("linux.mountLabel", "SELinux is not enabled on this host")
        raise ConfigError("linux.mountLabel", "is not supported yet")
    for index, mount in enumerate(job.config.get("mounts") or ()):
        for name in ("uidMappings", "gidMappings"):
            if mount.get(name):
                raise ConfigError(f"mounts[{index}].{name}", "is not supported yet")
