"""From a command that has prepared a pod to its monitor, in this process or in the background."""

from __future__ import annotations

import posix
import sys

from ociruntime.errors import HostError, PodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ociruntime.pod.pod import Pod

MONITOR_LOG = "monitor.log"


def become_monitor(pod: Pod, *, debug: bool = False, print_uuid: bool = False) -> NoReturn:
    """Become the monitor of ``pod``, which is in phase run and locked by us.

    What the apps write appears on our streams, and their code is our exit status; with
    ``print_uuid`` the pod's UUID is the first line.  Raises HostError.
    """
    _execute(pod, debug, ["--print-uuid"] if print_uuid else [])


def start_monitor(pod: Pod, *, debug: bool = False) -> None:
    """Start the monitor of ``pod``, which is in phase run and locked by us, in the background.

    Returns when the pod is ready; the lock is not ours any more then.  Raises PodError with
    what kept it from that, HostError.
    """
    try:
        told, telling = posix.pipe2(posix.O_CLOEXEC)
        child = posix.fork()
    except OSError as error:
        raise HostError("start the pod's monitor", error) from None
    if child == 0:
        _be_background(pod, debug, telling)
    posix.close(telling)
    pod.close()
    said = b""
    while part := posix.read(told, 4096):
        said += part
    posix.close(told)
    if said != b"\n":
        posix.waitpid(child, 0)
        text = said.decode(errors="replace")
        raise PodError(text or f"pod {pod.uuid} ended before it was ready")


def _be_background(pod: Pod, debug: bool, telling: int) -> None:
    try:
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_CLOEXEC
        log = posix.open(MONITOR_LOG, flags, 0o640, dir_fd=pod.fd)
        for number, fd in ((0, null), (1, null), (2, log)):
            posix.dup2(fd, number)
        posix.set_inheritable(telling, True)
        _execute(pod, debug, ["--detach-fd", str(telling)])
    except BaseException as error:  # noqa: BLE001 - the child must end here, whatever comes
        posix.write(telling, f"start the pod's monitor: {error}".encode())
    finally:
        posix._exit(254)


def _execute(pod: Pod, debug: bool, words: list[str]) -> NoReturn:
    """Anew, so that nothing of what preparing took stays in memory."""
    # Interpreter, its options and the program's file, as we were started ourselves.
    program = sys.orig_argv[: sys.orig_argv.index(sys.argv[0]) + 1]
    options = [f"--dir={pod.directory}", *(["--debug"] if debug else [])]
    command = [*program, *options, "monitor", pod.uuid, "--lock-fd", str(pod.fd), *words]
    try:
        posix.set_inheritable(pod.fd, True)
        posix.execv(sys.executable, command)
    except OSError as error:
        raise HostError("start the pod's monitor", error) from None
