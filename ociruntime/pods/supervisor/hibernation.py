"""How a monitor in which nothing happens does without the interpreter.

It writes what it has to know to a file in memory and executes ``csrc/sleeper`` in its own place:
same process, same children, same descriptors.  At the first event that executes the interpreter
again, which reads the file and goes on.  Signals are blocked from before the first to after the
second execution: none is lost, and none ends the process.
"""

from __future__ import annotations

import posix
import select
import sys
import time

from ociruntime.base import json_files as records
from ociruntime.base.errors import HostError
from ociruntime.base.fault import fault, variable_for_tests
from ociruntime.base.programs import own_launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any

    from ociruntime.pods.loop.loop import Loop

    Frozen = dict[str, Any]
else:
    import _signal

PROGRAM = __file__.rpartition("/")[0] + "/_sleeper"
VARIABLE = "OCIPOD_PATIENCE"  # seconds, for tests: always that much instead of the following
SHORTEST = 5.0  # seconds without an event before the first sleep
LONGEST = 60.0
WORTH_IT = 60.0  # seconds of a sleep; after a shorter one the next one is waited for longer


def first_patience() -> float:
    """Seconds without an event until the first sleep."""
    wanted = variable_for_tests(VARIABLE)
    return float(wanted) if wanted else SHORTEST


def next_patience(before: float, slept: float) -> float:
    """The same after a sleep of ``slept`` seconds that took ``before`` to come."""
    if variable_for_tests(VARIABLE):
        return before
    return SHORTEST if slept >= WORTH_IT else min(2 * before, LONGEST)


def try_to_sleep(
    loop: Loop, title: str, command: list[str], frozen: Frozen, kept: list[int]
) -> None:
    """Sleep, and become ``command`` with ``--resume-fd N``; return if something has just happened.

    ``title`` is what ``ps`` shows; ``command`` is a file of Python and its arguments; ``kept`` are
    the descriptors that ``frozen`` speaks of.  Raises HostError, OSError: the monitor is as before.
    """
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        # Signals that came earlier have left a byte in the loop's pipe.
        if loop.is_quiet and not _signal.sigpending():
            note = {**frozen, "kept": kept, "mask": sorted(before), "since": time.monotonic()}
            _sleep(loop.descriptors(), title, command, note)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _sleep(descriptors: list[int], title: str, command: list[str], note: Frozen) -> None:
    memory = -1
    try:
        for fd in note["kept"]:
            posix.set_inheritable(fd, True)
        with select.epoll() as watched:
            for fd in descriptors:
                watched.register(fd, select.EPOLLIN)
            memory = posix.memfd_create("monitor", 0)
            data = records.text_of({**note, "watched": watched.fileno()})
            while data:
                data = data[posix.write(memory, data) :]
            posix.set_inheritable(watched.fileno(), True)
            own = [title, str(watched.fileno()), command[0]]
            words = [*own, *_start_of(command), "--resume-fd", str(memory), ""]
            fault("monitor.before-sleep")
            posix.execve(PROGRAM, words, posix.environ)
    except OSError as error:
        raise HostError(f"execute {PROGRAM}", error) from None
    finally:
        if memory >= 0:
            posix.close(memory)
        for fd in note["kept"]:
            posix.set_inheritable(fd, False)


def _start_of(command: list[str]) -> list[str]:
    """Return the path of what starts ``command``, and its arguments from the program's name on.

    They are the launcher's, else those of the interpreter with its options as we were started.
    """
    if launcher := own_launcher("ocipod"):
        return [launcher, launcher, *command[1:]]
    interpreter = sys.orig_argv[: sys.orig_argv.index(sys.argv[0])]
    return [sys.executable, *interpreter, *command]


def wake_up(memory: int) -> Frozen:
    """What ``try_to_sleep`` was given, with "slept" in seconds; signals are still blocked.

    Raises HostError, PodError.
    """
    try:
        posix.lseek(memory, 0, 0)
        size = posix.fstat(memory).st_size
        data = b""
        while len(data) < size:
            data += posix.read(memory, size)
        posix.close(memory)
    except OSError as error:
        raise HostError("read what the monitor has noted", error) from None
    frozen = records.parse(data, "what the monitor has noted")
    posix.close(frozen["watched"])
    for fd in frozen["kept"]:
        posix.set_inheritable(fd, False)
    fault("monitor.after-sleep")
    frozen["slept"] = time.monotonic() - frozen["since"]
    return frozen


def take_signals(frozen: Frozen) -> None:
    """Let signals come that were blocked; to be called when there are handlers for them."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, frozen["mask"])
