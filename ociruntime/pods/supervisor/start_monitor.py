"""Start a pod's monitor: in this process, or in the background."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from ociruntime.base.errors import HostError, PodError, RuntimeFailure, reason
from ociruntime.base.process import heed_ignored_signals, inheritable_descriptors
from ociruntime.pods.store.pod import Pod

if TYPE_CHECKING:
    from ociruntime.pods.supervisor.supervise import Supervisor

Say = Callable[[str], None]


MONITOR_LOG = "monitor.log"
FAILED = 254


def be_monitor(pod: Pod, warn: Say, on_ready: Callable[[], object] | None = None) -> int:
    """Supervise ``pod``, which is in phase run and locked by us, until it exits; its exit code.

    The apps' output is copied to our streams.  Raises RuntimeFailure.
    """
    monitor = _monitor(pod, warn)
    monitor.stay_in_foreground()

    def tell(error: str) -> None:
        if not error and on_ready is not None:
            on_ready()

    monitor.tell = tell
    return monitor.run()


def start_monitor(pod: Pod, warn: Say) -> None:
    """Start the monitor of ``pod``, which is in phase run and locked by us, in the background.

    ``warn`` is called in the monitor, with standard error redirected to its log.  Returns when the
    pod is ready and the monitor has taken over the lock.  Raises PodError if the pod does not
    become ready; HostError.
    """
    try:
        told, telling = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
    except OSError as error:
        raise HostError("start the pod's monitor", error) from None
    if child == 0:
        os.close(told)
        _be_background(pod, warn, telling)
    os.close(telling)
    pod.close()
    said = b""
    while part := os.read(told, 4096):
        said += part
    os.close(told)
    if said != b"\n":
        os.waitpid(child, 0)
        text = said.decode(errors="replace")
        raise PodError(text or f"pod {pod.uuid} exited before it was ready")


def _monitor(pod: Pod, warn: Say) -> Supervisor:
    """Return the supervisor, after changing to the pod's directory.  Raises RuntimeFailure."""
    from ociruntime.pods.bundle.private_mount_namespace import enter_own_mounts
    from ociruntime.pods.supervisor.supervise import Supervisor

    enter_own_mounts()
    os.chdir(pod.path())
    return Supervisor(pod.path(), pod.uuid, pod.fd, warn)


def _be_background(pod: Pod, warn: Say, telling: int) -> NoReturn:
    status = FAILED
    tell = _teller(telling)
    try:
        os.setsid()
        heed_ignored_signals()
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(MONITOR_LOG, flags, 0o640, dir_fd=pod.fd)
        for number, fd in ((0, null), (1, null), (2, log)):
            os.dup2(fd, number)
        os.close(null)
        os.close(log)
        for fd in inheritable_descriptors():
            os.close(fd)  # the caller may wait for the end of a pipe, or keep a secret open
        monitor = _monitor(pod, warn)
        monitor.tell = tell
        status = monitor.run()
    except RuntimeFailure as failure:
        warn(str(failure))
        tell(str(failure))
    except BaseException as error:  # noqa: BLE001 - the child must not return into the caller
        why = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        text = f"start the pod's monitor: {why}"
        warn(text)
        tell(text)
    finally:
        os._exit(status)


def _teller(fd: int) -> Say:
    """Return a function that reports the start to ``fd`` once: an error, or "" if it is ready."""
    open_ones = [fd]

    def tell(error: str) -> None:
        while open_ones:
            try:
                os.write(fd, error.encode() or b"\n")
            except OSError:
                pass  # the command that started us has been killed
            os.close(open_ones.pop())

    return tell
