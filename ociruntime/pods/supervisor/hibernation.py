"""Hibernation: an idle monitor re-executes itself as a small C program until the next event.

The snapshot is written to a memory file, then the process executes ``csrc/hibernation``: same pid,
same children, same descriptors.  At the first event the stub executes the interpreter again, which
restores the snapshot.  Signals are blocked from before the first execve(2) to after the second, so
that none is lost and none kills the process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.fault_injection import fault, variable_for_tests
from ociruntime.base.files import write_all
from ociruntime.base.host_programs import own_launcher
from ociruntime.pods.loop.event_loop import Loop

Snapshot = dict[str, Any]


PROGRAM = __file__.rpartition("/")[0] + "/_hibernation"
VARIABLE = "OCIPOD_IDLE_TIMEOUT"  # timeout in seconds, for tests: overrides all of the following
SHORTEST = 5.0  # seconds without an event before the first hibernation
LONGEST = 60.0
WORTH_IT = 60.0  # seconds; after a shorter hibernation, the timeout before the next one grows


def first_timeout() -> float:
    """Return the seconds without an event before the first hibernation."""
    wanted = variable_for_tests(VARIABLE)
    return float(wanted) if wanted else SHORTEST


def next_timeout(before: float, slept: float) -> float:
    """Return the timeout after a hibernation of ``slept`` seconds, where it was ``before``."""
    if variable_for_tests(VARIABLE):
        return before
    return SHORTEST if slept >= WORTH_IT else min(2 * before, LONGEST)


def try_to_sleep(
    loop: Loop, title: str, command: list[str], snapshot: Snapshot, kept: list[int]
) -> None:
    """Hibernate and become ``command`` with ``--resume-fd N``; return if an event is pending.

    ``title`` is for ``ps``; ``command`` is a Python file with arguments; ``kept`` are the
    descriptors that ``snapshot`` refers to.  On HostError or OSError the monitor is unchanged.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        # A signal received before it was blocked has left a byte in the loop's wakeup pipe.
        if loop.is_quiet and not signal.sigpending():
            snapshot = {**snapshot, "kept": kept, "mask": sorted(before), "since": time.monotonic()}
            _sleep(loop.descriptors(), title, command, snapshot)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sleep(descriptors: list[int], title: str, command: list[str], snapshot: Snapshot) -> None:
    memory = -1
    try:
        for fd in snapshot["kept"]:
            os.set_inheritable(fd, True)
        with select.epoll() as watched:
            for fd in descriptors:
                watched.register(fd, select.EPOLLIN)
            memory = os.memfd_create("monitor", 0)
            write_all(memory, json_files.text_of({**snapshot, "watched": watched.fileno()}))
            os.set_inheritable(watched.fileno(), True)
            own = [title, str(watched.fileno()), command[0]]
            words = [*own, *_start_of(command), "--resume-fd", str(memory), ""]
            fault("monitor.before-sleep")
            os.execve(PROGRAM, words, os.environ)
    except OSError as error:
        raise HostError(f"execute {PROGRAM}", error) from None
    finally:
        if memory >= 0:
            os.close(memory)
        for fd in snapshot["kept"]:
            os.set_inheritable(fd, False)


def _start_of(command: list[str]) -> list[str]:
    """Return the path of what starts ``command``, and its argv.

    This is the launcher, or the interpreter with the options that we were started with.
    """
    if launcher := own_launcher("ocipod"):
        return [launcher, launcher, *command[1:]]
    interpreter = sys.orig_argv[: sys.orig_argv.index(sys.argv[0])]
    return [sys.executable, *interpreter, *command]


def wake_up(memory: int) -> Snapshot:
    """Return the snapshot, with "slept" in seconds; signals are still blocked.

    Raises HostError, PodError.
    """
    try:
        os.lseek(memory, 0, 0)
        size = os.fstat(memory).st_size
        data = b""
        while len(data) < size:
            data += os.read(memory, size)
        os.close(memory)
    except OSError as error:
        raise HostError("read the monitor's snapshot", error) from None
    snapshot = json_files.parse(data, "the monitor's snapshot")
    os.close(snapshot["watched"])
    for fd in snapshot["kept"]:
        os.set_inheritable(fd, False)
    fault("monitor.after-sleep")
    snapshot["slept"] = time.monotonic() - snapshot["since"]
    return snapshot


def take_signals(snapshot: Snapshot) -> None:
    """Unblock signals; call it once there are handlers for them."""
    signal.pthread_sigmask(signal.SIG_SETMASK, snapshot["mask"])
