"""Run slow or memory-consuming work in a child process, so that the monitor stays responsive.

A child is a fork without exec, so starting it is cheap, and modules it imports are gone when it
exits.  It is killed when the monitor exits.
"""

from __future__ import annotations

import posix

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import Any

    from ociruntime.pods.loop.loop import Loop

    Work = Callable[[], dict[str, Any] | None]
    Done = Callable[["Outcome"], None]
else:
    import _signal

PR_SET_PDEATHSIG = 1
LARGEST = 16 << 20  # maximum size of a result in bytes


class Outcome:
    """``status`` is the exit status (128+n for signal n), ``value`` the result of the work."""

    __slots__ = ("error", "status", "value")

    def __init__(self, status: int, value: dict[str, Any]) -> None:
        self.status = status
        self.error = str(value.get("error", "")) if status else ""
        self.value = value

    def check(self, what: str) -> None:
        """Check for success.  Raises PodError if the work failed."""
        if self.status:
            raise PodError(self.error or f"{what}: failed with status {self.status}")


def start(loop: Loop, private: tuple[int, ...], work: Work, done: Done) -> int:
    """Run ``work`` in a child that inherits none of the descriptors ``private``; return its pid.

    ``work`` returns a JSON object or None, raises, or executes another program.  Raises HostError.
    """
    try:
        result = posix.memfd_create("result", posix.MFD_CLOEXEC)
        parent = posix.getpid()
        pid = posix.fork()
    except OSError as error:
        raise HostError("start a child process", error) from None
    if pid == 0:
        _be_child(parent, private, work, result)

    def ended(status: int) -> None:
        posix.lseek(result, 0, 0)
        data = posix.read(result, LARGEST)
        posix.close(result)
        done(Outcome(exit_status(status), json_files.parse(data, "a result") if data else {}))

    loop.expect(pid, ended)
    return pid


def exit_status(wait_status: int) -> int:
    """Convert a wait status to an exit status as in a shell: 128+n for signal n."""
    if posix.WIFSIGNALED(wait_status):
        return 128 + posix.WTERMSIG(wait_status)
    return posix.WEXITSTATUS(wait_status)


def _be_child(parent: int, private: tuple[int, ...], work: Work, result: int) -> None:
    status = 254
    try:
        for fd in private:
            posix.close(fd)
        _restore_signals()
        # Leave the foreground process group: ^C is for the monitor, which stops the apps in order.
        posix.setpgid(0, 0)
        die_with(parent)
        value = work()
        posix.write(result, json_files.text_of(value or {}))
        status = 0
    except RuntimeFailure as failure:
        posix.write(result, json_files.text_of({"error": str(failure)}))
    except BaseException as error:  # noqa: BLE001 - the child must not return into the caller
        text = f"internal error: {type(error).__name__}: {error}"
        posix.write(result, json_files.text_of({"error": text}))
    finally:
        posix._exit(status)


def _restore_signals() -> None:
    _signal.set_wakeup_fd(-1)
    for number in _signal.valid_signals():
        if _signal.getsignal(number) not in (_signal.SIG_DFL, None):
            _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def die_with(parent: int) -> None:
    """Arrange to be killed when ``parent`` exits, also after execve(2)."""
    from ociruntime._shim import lib

    lib.oci_prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
    if posix.getppid() != parent:
        posix._exit(254)
