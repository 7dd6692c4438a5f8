"""Want of memory: how often the kernel has killed for it, and being told when it does."""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import failure, write
from ociruntime.runtime.cgroups.freezer import event

# In v2 the count is that of the whole tree; in v1 that of the cgroup alone.
_FILES = {1: "memory.oom_control", 2: "memory.events"}


def oom_kills(directory: str, version: int) -> int:
    """How many processes of the cgroup it has killed; 0 also if the cgroup is gone."""
    try:
        return event(directory, "oom_kill", _FILES[version])
    except OSError:
        return 0


class OomNotice:
    """``fd`` is ready, in a poll(2) for ``events``, when the kernel may have killed.

    In v1 an eventfd tells of each want of memory (memory.oom_control); in v2 the file with
    the count itself can be waited for.  Raises HostError when made.
    """

    def __init__(self, directory: str, version: int) -> None:
        from select import POLLERR, POLLIN, POLLPRI

        path = f"{directory}/{_FILES[version]}"
        self._counts = version == 1
        self.events = POLLIN if version == 1 else POLLPRI | POLLERR
        try:
            control = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError as error:
            raise failure(f"open {path}", error) from None
        if version == 2:
            self.fd = control
            return
        self.fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
        try:
            write(f"{directory}/cgroup.event_control", f"{self.fd} {control}")
        except OSError as error:
            self.close()
            raise failure(f"ask for notices of {path}", error) from None
        finally:
            posix.close(control)

    def acknowledge(self) -> bool:
        """Read what made it ready, so that the next notice can; False if the cgroup is gone."""
        try:
            if self._counts:
                posix.eventfd_read(self.fd)
            else:
                posix.lseek(self.fd, 0, 0)
                posix.read(self.fd, 4096)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End of it."""
        posix.close(self.fd)
