"""Run an external program, such as a network plugin, nft or iptables.

The program inherits only its standard streams: a process that it leaves behind must not hold a
pod's lock.  Such a process may also keep the pipes open indefinitely, so we wait for the program's
exit, not for the end of its output.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping

from ociruntime.base.errors import NetworkError, reason
from ociruntime.base.files import memory_file
from ociruntime.base.host_programs import DIRECTORIES

OUTPUT_MOST = 1 << 20  # maximum bytes of output; more is an error
CHUNK = 1 << 16


def run_program(
    argv: list[str], data: bytes, timeout: float, environment: Mapping[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    """Run the program ``argv[0]``, a path, with ``data`` as its standard input.

    Returns (exit code, stdout, stderr); the exit code is -N if signal N killed the program.  Raises
    NetworkError if the program cannot be executed, prints more than 1 MiB, or has not exited after
    ``timeout`` seconds.  In the last two cases, the program's process group is killed.
    """
    try:
        return _run(argv, data, timeout, environment)
    except OSError as error:
        raise NetworkError(f'run "{argv[0]}": {reason(error)}') from None


def _run(
    argv: list[str], data: bytes, timeout: float, environment: Mapping[str, str] | None
) -> tuple[int, bytes, bytes]:
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        # If SIGCHLD is ignored (inherited), the kernel reaps the program and we lose its status.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if environment is None:
        environment = {"PATH": ":".join(DIRECTORIES), "LC_ALL": "C"}
    streams = [memory_file("input", data)]
    try:
        streams += [*os.pipe2(os.O_CLOEXEC)]
        streams += [*os.pipe2(os.O_CLOEXEC)]
        theirs = (streams[0], streams[2], streams[4])
        pid = _spawn(argv, environment, theirs)
        for fd in theirs:
            os.close(fd)
            streams.remove(fd)
        try:
            return _collect(pid, argv[0], (streams[0], streams[1]), timeout)
        except BaseException:
            _end(pid)
            raise
    finally:
        for fd in streams:
            os.close(fd)


def _spawn(argv: list[str], environment: Mapping[str, str], streams: tuple[int, ...]) -> int:
    # Descriptors 0 to 2 may be closed in this process, so that a pipe has got one of these numbers:
    # duplicate the streams to free numbers first, so that dup2 to 0, 1, 2 overwrites none of them.
    high = 3 + max(int(name) for name in os.listdir("/proc/self/fd"))
    actions: list[tuple[int, ...]] = []
    for i, fd in enumerate(streams):
        actions.append((os.POSIX_SPAWN_DUP2, fd, high + i))
    for i in range(3):
        actions.append((os.POSIX_SPAWN_DUP2, high + i, i))
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in range(3, high + 3)]
    return os.posix_spawn(
        argv[0],
        argv,
        dict(environment),
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD),
    )


def _collect(
    pid: int, path: str, pipes: tuple[int, int], timeout: float
) -> tuple[int, bytes, bytes]:
    parts: dict[int, bytearray] = {fd: bytearray() for fd in pipes}
    for fd in pipes:
        os.set_blocking(fd, False)
    process = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        for fd in (process, *pipes):
            waiting.register(fd, select.POLLIN)
        limit = time.monotonic() + timeout
        ended = False
        while not ended:
            remaining_seconds = limit - time.monotonic()
            if remaining_seconds <= 0:
                raise NetworkError(f'run "{path}": timeout after {timeout:g} seconds')
            ready = [fd for fd, _ in waiting.poll(remaining_seconds * 1000)]
            ended = process in ready
            for fd in pipes if ended else ready:
                if fd != process and not _take(fd, parts[fd], path, ended) and not ended:
                    waiting.unregister(fd)
    finally:
        os.close(process)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), bytes(parts[pipes[0]]), bytes(parts[pipes[1]])


def _take(fd: int, into: bytearray, path: str, everything: bool) -> bool:
    """Read output of the program ``path`` from ``fd``, and append it to ``into``.

    With ``everything``, read until no more output is available.  Returns False at the end of the
    output.  Raises NetworkError if the output exceeds the limit.
    """
    while True:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        into += data
        if len(into) > OUTPUT_MOST:
            raise NetworkError(f'run "{path}": its output exceeds {OUTPUT_MOST} bytes')
        if not data or not everything:
            return bool(data)


def _end(pid: int) -> None:
    """Kill the program's process group, and reap the program."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        os.waitpid(pid, 0)
    except OSError:
        pass
