"""Create a block device for a case."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.context import Context


def make(c: Context, scheduler: str) -> dict[str, int]:
    """Create a loop device with that I/O scheduler; return {"major": ..., "minor": ...}.

    It lives as long as the case's process.  Skips if the host cannot provide one.
    """
    c.need_root("needs to create a loop device")
    file = c.directory / f"disk-{c.id()}"
    file.write_bytes(b"")
    os.truncate(file, 1 << 20)
    path = Path(c.tool("losetup", "--find", "--show", str(file)).out.strip())
    # When detached while open, the device stays until the last descriptor is closed.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    c.tool("losetup", "--detach", str(path))
    setting = Path("/sys/block", path.name, "queue", "scheduler")
    before = setting.read_text().partition("[")[2].partition("]")[0]
    try:
        setting.write_text(scheduler)
        c.undo.append(lambda: setting.write_text(before))
    except OSError as error:
        c.skip(f"cannot set the I/O scheduler {scheduler}: {error.strerror}")
    device = os.fstat(fd).st_rdev
    return {"major": os.major(device), "minor": os.minor(device)}
