"""The previous value of a control file, as a setting that restores it.

Most files read as they are written.  Per-device files have a line for each device with a value of
its own; a device without one must be reset.
"""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import read
from ociruntime.runtime.cgroups.setting import Setting

_NO_LIMIT = "{} rbps=max wbps=max riops=max wiops=max"
# (prefix of the file's name, line that resets a device); the first match counts.
_BY_DEVICE = (
    ("io.max", _NO_LIMIT),
    ("io.weight", "{} default"),
    ("io.bfq.weight", "{} default"),
    ("blkio.weight_device", "{} 0"),
    ("blkio.leaf_weight_device", "{} 0"),
    ("blkio.bfq.weight_device", "{} default"),
    ("blkio.throttle.", "{} 0"),
    ("rdma.max", "{} hca_handle=max hca_object=max"),
)


def previous(setting: Setting, directory: str) -> Setting | None:
    """Return the setting that restores the file; None if it is missing or cannot be read."""
    for file, value in setting.files:
        path = f"{directory}/{file}"
        if not posix.access(path, posix.F_OK):
            continue
        try:
            content = read(path)
        except OSError:
            return None
        files = ((file, restoring(file, content, value)),)
        controller, where = setting.controller, setting.where
        return Setting(setting.version, controller, files, where, setting.coupled, optional=True)
    return None


def restoring(file: str, content: str, value: str) -> str:
    """Return what to write after ``value`` to restore ``content``; pure."""
    if file == "memory.oom_control":
        return content.split()[1]  # of "oom_kill_disable 0"
    for beginning, away in _BY_DEVICE:
        if file.startswith(beginning):
            return _by_device(content, value, away)
    return content.strip()


def _by_device(content: str, value: str, away: str) -> str:
    present = {line.split()[0]: line for line in content.splitlines() if line.strip()}
    lines = []
    for line in value.splitlines():
        # A bare weight is the default for devices without one of their own.
        device = line.split()[0] if " " in line.strip() else "default"
        lines.append(present.get(device) or away.format(device))
    return "\n".join(lines)
