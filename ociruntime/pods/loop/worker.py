"""Run slow or memory-hungry functions in child processes, so that the monitor stays responsive.

A child is a fork without exec: it starts fast, and the memory of modules that it imports is freed
when it exits.  It is killed when the monitor exits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, RuntimeFailure
from ociruntime.base.process import die_with
from ociruntime.pods.loop.event_loop import Loop

Work = Callable[[], dict[str, Any] | None]
Done = Callable[["Outcome"], None]


LARGEST = 16 << 20  # maximum size of a result in bytes


class Outcome:
    """The outcome of a function that ran in a child process.

    ``status`` is the exit status of the process, 128+n if signal n killed it.  ``value`` is the
    JSON object that the function returned, {} for None.  ``error`` is the message of the error that
    it raised, or "".
    """

    __slots__ = ("error", "status", "value")

    def __init__(self, status: int, value: dict[str, Any]) -> None:
        self.status = status
        self.error = str(value.get("error", "")) if status else ""
        self.value = value

    def check(self, work: str) -> None:
        """Raise PodError with the message ``error`` if the function or its process failed.

        If there is no ``error``, the message consists of ``work``, what was attempted, and the exit
        status.
        """
        if self.status:
            raise PodError(
                self.error or f"{work}: the child process exited with status {self.status}"
            )


def start(loop: Loop, private: tuple[int, ...], work: Work, done: Done) -> int:
    """Call ``work`` in a child process; return its pid, and call ``done`` once it has exited.

    ``work`` returns a JSON object or None, raises an exception, or executes another program.
    ``done`` is called with the Outcome.  The child first closes the descriptors ``private``.
    Raises HostError if the child cannot be started.
    """
    try:
        result = os.memfd_create("result", os.MFD_CLOEXEC)
        parent = os.getpid()
        # Block SIGINT: ^C reaches the child, too, until it leaves the foreground process group.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        pid = os.fork()
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        raise HostError("start a child process of the pod's monitor", error) from None
    if pid == 0:
        _run_child(parent, private, work, result)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def ended(status: int) -> None:
        os.lseek(result, 0, 0)
        data = os.read(result, LARGEST)
        os.close(result)
        done(Outcome(exit_status(status), json_files.parse(data, "a result") if data else {}))

    loop.expect(pid, ended)
    return pid


def exit_status(wait_status: int) -> int:
    """Convert a wait status of waitpid(2) to an exit status as in a shell, 128+n for signal n."""
    if os.WIFSIGNALED(wait_status):
        return 128 + os.WTERMSIG(wait_status)
    return os.WEXITSTATUS(wait_status)


def _run_child(parent: int, private: tuple[int, ...], work: Work, result: int) -> None:
    status = 254
    try:
        # Leave the foreground process group, so that ^C reaches only the monitor.
        os.setpgid(0, 0)
        for fd in private:
            os.close(fd)
        _restore_signals()
        die_with(parent)
        value = work()
        os.write(result, json_files.text_of(value or {}))
        status = 0
    except RuntimeFailure as failure:
        os.write(result, json_files.text_of({"error": str(failure)}))
    except BaseException as error:  # noqa: BLE001 - the child must not return into the caller
        text = f"internal error: {type(error).__name__}: {error}"
        os.write(result, json_files.text_of({"error": text}))
    finally:
        os._exit(status)


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # discard a ^C that arrived before setpgid(2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
