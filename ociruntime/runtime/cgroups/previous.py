"""What stands in a control file before it is written, as the setting that brings it back.

Most files read as they are written.  Those of devices have a line for each device with a value
of its own, and what has none now is to have none again.
"""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import read
from ociruntime.runtime.cgroups.setting import Setting

_NO_LIMIT = "{} rbps=max wbps=max riops=max wiops=max"
# Beginning of a file's name -> the line that takes a device's value away; the first one counts.
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
    """None for a file that is missing or cannot be read."""
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
    """What to write after ``value`` was, so that ``content`` is read again; pure."""
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
        # A weight alone is that of all devices without one: "default 100".
        device = line.split()[0] if " " in line.strip() else "default"
        lines.append(present.get(device) or away.format(device))
    return "\n".join(lines)
