"""Start a pod's monitor: in this process, or in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from ociruntime.base.errors import HostError, PodError, RuntimeFailure, reason
from ociruntime.base.process import heed_ignored_signals, inheritable_descriptors
from ociruntime.pods.store.pod import Pod

if TYPE_CHECKING:
    from ociruntime.pods.monitor.monitor import Monitor

HandleMessage = Callable[[str], None]


MONITOR_LOG = "monitor.log"
FAILED = 254


def run_monitor(pod: Pod, warn: HandleMessage, on_ready: Callable[[], object] | None = None) -> int:
    """Run the monitor of ``pod`` in this process until the pod has ended; return its exit code.

    The pod must be in the phase run, and locked by this process.  The apps' output is copied to
    stdout and stderr.  ``warn`` is called with warnings, ``on_ready`` once the pod is ready.
    Raises RuntimeFailure if the pod cannot be started, or is ended by an error.
    """
    monitor = _monitor(pod, warn)
    monitor.stay_in_foreground()

    def report_start(error: str) -> None:
        if not error and on_ready is not None:
            on_ready()

    monitor.report_start = report_start
    return monitor.run()


def start_monitor(pod: Pod, warn: HandleMessage) -> None:
    """Start the monitor of ``pod`` in the background, and wait until the pod is ready.

    The pod must be in the phase run, and locked by this process.  Afterwards the monitor holds the
    pod's lock, and ``pod`` is closed.  The monitor's stderr goes to the file monitor.log, and it
    calls ``warn`` with warnings.

    Raises PodError if the pod does not become ready.  Raises HostError if fork(2) fails, or if
    waiting fails; in the second case, the monitor stops the pod.
    """
    try:
        report, report_end = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
    except OSError as error:
        raise HostError(f"start the monitor of pod {pod.uuid}", error) from None
    if child == 0:
        os.close(report)
        _run_in_background(pod, warn, report_end)
    os.close(report_end)
    pod.close()
    result = b""
    try:
        while part := os.read(report, 4096):
            result += part
    except OSError as error:
        os.kill(child, signal.SIGTERM)  # the monitor stops the pod
        os.waitpid(child, 0)
        raise HostError(f"start pod {pod.uuid}: wait until it is ready", error) from None
    finally:
        os.close(report)
    if result != b"\n":
        if not result:  # it has exited, or could not write its report
            os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        text = result.decode(errors="replace")
        raise PodError(text) if text else _no_report(pod, status)


def _no_report(pod: Pod, status: int) -> PodError:
    """Return the error for a monitor that exited without reporting whether the pod is ready.

    ``status`` is the monitor's wait status.
    """
    if os.WIFSIGNALED(status):
        cause = f"was killed by signal {os.WTERMSIG(status)}"
    else:
        cause = f"exited with status {os.waitstatus_to_exitcode(status)}"
    message = f"start pod {pod.uuid}: its monitor {cause} before the pod was ready"
    return PodError(message, f"see {pod.path()}/{MONITOR_LOG}")


def _monitor(pod: Pod, warn: HandleMessage) -> Monitor:
    """Enter a new mount namespace and the pod's directory; return a new monitor of ``pod``.

    Raises RuntimeFailure if the namespace cannot be created or a file of the pod cannot be read.
    """
    from ociruntime.pods.bundle.private_mount_namespace import enter_own_mounts
    from ociruntime.pods.monitor.monitor import Monitor

    enter_own_mounts()
    os.chdir(pod.path())
    return Monitor(pod.path(), pod.uuid, pod.fd, warn)


def _run_in_background(pod: Pod, warn: HandleMessage, report_end: int) -> NoReturn:
    """Run the monitor in this forked child, and then exit.

    Writes to the pipe ``report_end`` when the pod is ready or could not be started.
    """
    status = FAILED
    report_start = _start_reporter(report_end)
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
            os.close(fd)  # close inherited pipes: their readers may wait for the end of file
        monitor = _monitor(pod, warn)
        monitor.report_start = report_start
        status = monitor.run()
    except RuntimeFailure as failure:
        warn(str(failure))
        report_start(str(failure))
    except BaseException as error:  # noqa: BLE001 - the child must not return into the caller
        why = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        text = f"start the pod's monitor: {why}"
        warn(text)
        report_start(text)
    finally:
        os._exit(status)


def _start_reporter(fd: int) -> HandleMessage:
    """Return a function that reports to the pipe ``fd`` whether a pod has started.

    Its argument is an error message, or "" if the pod is ready.  It writes the message, or for "" a
    newline, and closes the pipe.  Only the first call has an effect.
    """
    open_descriptors = [fd]

    def report_start(error: str) -> None:
        while open_descriptors:
            try:
                os.write(fd, error.encode() or b"\n")
            except OSError:
                pass  # the command that started the monitor has been killed
            os.close(open_descriptors.pop())

    return report_start
