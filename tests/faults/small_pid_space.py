"""A pid namespace with few pids, most of which are in use."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.confinement import FREE, Confinement
from tests.faults.scenarios import Stage
from tests.support import isolation, rootfs

CLONE_NEWPID = 0x20000000
PID_MAX = Path("/proc/sys/kernel/pid_max")
MOST = 400  # the kernel does not give out pids below 300 a second time
FIRST_REUSED = 301

_libc = ctypes.CDLL(None, use_errno=True)


def inside(do: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `do` returns
    """Call ``do`` in the init of a new pid namespace; return its result.

    Raises RuntimeError with its traceback if it fails, or if namespaces have no pid_max of their
    own (before Linux 6.14).
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if _libc.unshare(CLONE_NEWPID | isolation.CLONE_NEWNS) == 0 and os.fork() == 0:
            os.write(writing, pickle.dumps(_answer(do)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    failure, result = pickle.loads(data)
    if failure:
        raise RuntimeError(failure)
    return result


def _answer(do: Callable[[], Any]) -> tuple[str, Any]:
    try:
        isolation.mount("proc", "/proc", "proc")
        PID_MAX.write_text(str(MOST))
        return "", do()
    except BaseException:  # noqa: BLE001 - a fork of the test must end here
        return traceback.format_exc()[-4000:], None


@contextlib.contextmanager
def filled(_stage: Stage, free: int) -> Iterator[Confinement]:
    """Leave only the given number of pids free."""
    fillers = []
    try:
        while True:
            words = ["busybox", "sleep", "1000"]
            fillers.append(os.posix_spawn(str(rootfs.BUSYBOX), words, {}))
    except OSError:  # EAGAIN: all are in use
        pass
    usable = [pid for pid in fillers if pid >= FIRST_REUSED]
    # One more for the process of the command itself.
    for pid in usable[: free + 1]:
        _end(pid)
    try:
        yield FREE
    finally:
        for pid in {*fillers} - {*usable[: free + 1]}:
            _end(pid)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
