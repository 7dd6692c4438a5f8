"""Lock a pod's manifest against concurrent changes."""

from __future__ import annotations

import fcntl
import posix

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.store.pod import GONE, MARKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from ociruntime.pods.store.pod import Pod

LOCK_FILE = "pod.lck"


class manifest_lock:  # noqa: N801 - used like a function
    """``with manifest_lock(pod):`` - wait for the lock and hold it while changing the manifest.

    It is a separate file, because the manifest is replaced by a rename.  Raises HostError, and
    PodError for a pod that is garbage: nothing may be written to it any more.
    """

    __slots__ = ("_fd", "_pod")

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._fd = -1

    def __enter__(self) -> manifest_lock:
        uuid = self._pod.uuid
        try:
            # Do not create the file, which every pod has: a pod without it is being removed.
            flags = posix.O_RDWR | posix.O_CLOEXEC | posix.O_NOFOLLOW
            fd = posix.open(LOCK_FILE, flags, dir_fd=self._pod.fd)
        except FileNotFoundError:
            raise PodError(f"pod {uuid} is {self._pod.refresh()}: it cannot be changed") from None
        except OSError as error:
            raise HostError(f"open {LOCK_FILE} of pod {uuid}", error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if self._pod.refresh() == GONE or self._pod.phase in MARKED:
                raise PodError(f"pod {uuid} is {self._pod.state}: it cannot be changed")
        except BaseException:
            posix.close(fd)
            raise
        self._fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fd, self._fd = self._fd, -1
        posix.close(fd)
