"""Run a command in a thread with its own working directory, for programs that use the library.

The runtime makes the bundle its working directory: hooks run there, and relative paths start there.
All threads of a process share the working directory, unless a thread unshares it (CLONE_FS).
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from os import strerror
from typing import TypeVar

from ociruntime.base.errors import HostError

Result = TypeVar("Result")


def in_own_thread(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a separate thread; return its result, or raise its exception.

    An exception from a signal handler is delayed until the work is finished.  Raises HostError if
    the thread cannot unshare its working directory.
    """
    results: list[Result] = []
    failures: list[BaseException] = []
    done = _thread.allocate_lock()  # unlike Thread.join, correct if interrupted
    done.acquire()

    def carry_out() -> None:
        try:
            _leave_shared_directory()
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            failures.append(error)
        finally:
            done.release()

    _thread.start_new_thread(carry_out, ())
    interrupted: BaseException | None = None
    while not (results or failures):
        try:
            done.acquire()
        except BaseException as error:  # noqa: BLE001 - whatever a signal handler raises
            interrupted = error
    if failures:
        raise failures.pop()
    if interrupted is not None:
        raise interrupted
    return results[0]


def _leave_shared_directory() -> None:
    from ociruntime._shim import lib

    result = lib.oci_unshare_fs()
    if result < 0:
        raise HostError("unshare a thread's working directory", OSError(-result, strerror(-result)))
