"""Run slow or memory-hungry functions in child processes, so that the monitor stays responsive.

A child is a fork without exec: it starts fast, and the memory of modules that it imports is freed
when it exits.  The kernel kills a child when the monitor exits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, RuntimeFailure, unhandled
from ociruntime.base.process import die_with
from ociruntime.pods.loop.event_loop import Loop

Work = Callable[[], dict[str, Any] | None]
Done = Callable[["Outcome"], None]


FAILED = 254
LARGEST = 16 << 20  # maximum size of a result in bytes


class Outcome:
    """The outcome of a function that ran in a child process.

    ``action`` is what was attempted, for error messages.  ``status`` is the exit status of the
    process, 128+n if signal n killed it.  If the function succeeded, ``value`` is the JSON object
    that it returned, {} for None.  If the function raised an error, ``error`` is the message.  If
    the process was killed, ``error`` is "".
    """

    __slots__ = ("action", "error", "status", "value")

    def __init__(self, action: str, status: int, value: dict[str, Any]) -> None:
        self.action = action
        self.status = status
        self.error = str(value.get("error", "")) if status else ""
        self.value = value

    @property
    def problem(self) -> str:
        """The error message if the function or its process failed, otherwise ""."""
        if not self.status:
            return ""
        return self.error or f"{self.action}: the child process exited with status {self.status}"

    def check(self) -> None:
        """Raise PodError if the function or its process failed."""
        if self.status:
            raise PodError(self.problem)


def start(loop: Loop, private: tuple[int, ...], action: str, work: Work, done: Done) -> int:
    """Call ``work`` in a child process; return the child's pid without waiting for its exit.

    Once the child has exited, ``loop`` calls ``done`` with the Outcome.  ``action`` describes the
    work in error messages.  ``work`` returns a JSON object or None, raises an exception, or
    executes another program.  The child first closes the descriptors ``private``.  Raises HostError
    if the child cannot be started.
    """
    parent = os.getpid()
    # Block SIGINT: ^C reaches the child, too, until it leaves the foreground process group.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    result = -1
    try:
        result = os.memfd_create("result", os.MFD_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _run_child(parent, private, action, work, result)
    except OSError as error:
        if result >= 0:
            os.close(result)
        raise HostError(f"{action}: start a child process", error) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def ended(status: int) -> None:
        try:
            data = os.pread(result, LARGEST, 0)
        except OSError as error:
            data = json_files.text_of(
                {"error": str(unhandled(f"{action}: read the result", error))}
            )
            status = status or FAILED << 8
        os.close(result)
        value = json_files.parse(data, "a result") if data else {}
        done(Outcome(action, exit_status(status), value))

    loop.expect(pid, ended)
    return pid


def exit_status(wait_status: int) -> int:
    """Convert a wait status of waitpid(2) to a shell's exit status, such as 128+n for signal n."""
    if os.WIFSIGNALED(wait_status):
        return 128 + os.WTERMSIG(wait_status)
    return os.WEXITSTATUS(wait_status)


def _run_child(parent: int, private: tuple[int, ...], action: str, work: Work, result: int) -> None:
    status = FAILED
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
    except KeyboardInterrupt:
        os.write(result, json_files.text_of({"error": f"{action}: interrupted"}))
    except Exception as error:  # noqa: BLE001 - the child must not return into the caller
        os.write(result, json_files.text_of({"error": str(unhandled(action, error))}))
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
