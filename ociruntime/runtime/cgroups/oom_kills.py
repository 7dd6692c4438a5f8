"""Count the OOM kills in a cgroup, and get notified of new ones."""

from __future__ import annotations

import posix

from ociruntime.runtime.cgroups.control_files import OOM_CONTROL, failure, write
from ociruntime.runtime.cgroups.freezer import event

# On v2 the counter includes all child cgroups; on v1 it does not.
_FILES = {1: OOM_CONTROL, 2: "memory.events"}


def oom_kills(directory: str, version: int) -> int:
    """Return the number of OOM kills in the cgroup ``directory``; 0 if the cgroup was removed."""
    try:
        return event(directory, "oom_kill", _FILES[version])
    except OSError:
        return 0


class OomNotice:
    """A descriptor that becomes ready when there may have been an OOM kill in a cgroup.

    Wait for ``events`` on ``fd`` with poll(2).  On v1, ``fd`` is an eventfd registered with
    memory.oom_control; on v2, it is the file memory.events, which supports poll(2).  The
    constructor raises HostError if the file cannot be opened or the eventfd cannot be registered.
    """

    def __init__(self, directory: str, version: int) -> None:
        from select import POLLERR, POLLIN, POLLPRI

        path = f"{directory}/{_FILES[version]}"
        self._counts = version == 1
        self.events = POLLIN if version == 1 else POLLPRI | POLLERR
        try:
            control = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError as error:
            raise failure(f'open "{path}"', error) from None
        if version == 2:
            self.fd = control
            return
        self.fd = -1
        try:
            self.fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
            write(f"{directory}/cgroup.event_control", f"{self.fd} {control}")
        except OSError as error:
            if self.fd >= 0:
                self.close()
            raise failure(f'subscribe to OOM notifications of "{path}"', error) from None
        finally:
            posix.close(control)

    def acknowledge(self) -> bool:
        """Reset ``fd`` after a notification, so that poll(2) waits for the next one.

        Returns False if the cgroup was removed.
        """
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
        """Close ``fd``."""
        posix.close(self.fd)
