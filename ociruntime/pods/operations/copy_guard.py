"""Keep an app's overlay from being mounted twice: lock the app while its files are copied.

A process that copies files keeps the app's overlay mounted.  If the app were started again
meanwhile, its upper directory would be part of two overlays, which the kernel leaves undefined.
So a copy holds a shared lock on the app's directory, and the app's next start waits for it
(``mount_rootfs``).  The program of the app and the client that reads the copy can make it last as
long as they like; therefore it ends with the run.

A child, the guard, holds the lock as well, because the kernel unmounts what a killed process had
mounted after it has closed its files: the guard closes the lock once the process is gone.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.store.lock import open_directory, try_lock
from ociruntime.pods.store.pod import Pod

_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)


@contextmanager
def lock_files(pod: Pod, app: str) -> Iterator[int]:
    """Context manager: lock the directory of ``app``, so that it cannot be started meanwhile.

    Yields the descriptor that holds the lock.  Raises PodError if the app is just being started,
    HostError.
    """
    try:
        lock = open_directory(f"apps/{app}", pod.fd)
    except OSError as error:
        raise HostError(f'open the directory of app "{app}"', error) from None
    try:
        if not try_lock(lock, exclusive=False):
            raise PodError(f'copy files of app "{app}": it is just being started', "try again")
        yield lock
    finally:
        os.close(lock)


@contextmanager
def guarded(lock: int, app: str, init: int = -1) -> Iterator[None]:
    """Context manager: start a child that holds ``lock``, too, until the context ends.

    If this process is killed, the child holds the lock until the mounts of this process are gone.
    ``init`` is the pidfd of the app's init, or -1; when the init exits, the child kills this
    process.  Raises HostError.
    """
    try:
        us = os.pidfd_open(os.getpid())
        ended, end = os.pipe2(os.O_CLOEXEC)
        guard = os.fork()
    except OSError as error:
        raise HostError(f'start a process that holds the lock of app "{app}"', error) from None
    if guard == 0:
        try:
            _guard(lock, us, init, ended, app)
        finally:
            os._exit(0)
    os.close(us)
    os.close(ended)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the guard was killed
            os.write(end, b"x")
        os.close(end)
        os.waitpid(guard, 0)


def has_ended(pidfd: int) -> bool:
    """Return whether the process to which ``pidfd`` refers has exited."""
    return bool(select.select([pidfd], [], [], 0)[0])


def _guard(lock: int, us: int, init: int, ended: int, app: str) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    needed = sorted({2, lock, us, ended, init} - {-1})
    # Close all others: they would keep the mount busy, or the pipe open.
    for below, above in zip([-1, *needed], [*needed, os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(below + 1, above)
    poll = select.poll()
    for fd in {us, ended, init} - {-1}:
        poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    if ended in ready and os.read(ended, 1):
        return  # the context has ended
    if init in ready and us not in ready and ended not in ready:
        message = f'ocipod: copy files of app "{app}": the app has ended (try again)\n'
        os.write(2, message.encode())
        signal.pidfd_send_signal(us, signal.SIGKILL)
    # A killed process closes its pipe before the kernel unmounts: wait for its pidfd.
    select.select([us], [], [])
