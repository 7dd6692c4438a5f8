"""`ps`: the processes of a container, as pids or as lines of ps(1)."""

from __future__ import annotations

import fcntl
import posix

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.host_programs import find_program
from ociruntime.runtime.lifecycle.container import load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.container_processes import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Collection, Sequence

    from ociruntime.runtime.lifecycle.context import Context
else:
    import _signal

# Engines call with an empty environment.
_PID = "PID"


def process_ids(context: Context, container_id: str) -> list[int]:
    """Return the pids in ascending order, [] if it has stopped.

    Raises NoSuchContainer, HostError.
    """
    check_id(container_id)
    return members(load(context.root, container_id))


def process_table(context: Context, container_id: str, arguments: Sequence[str]) -> list[str]:
    """Return the output of the host's ps(1) with ``arguments`` (default ``-ef``) for these
    processes.

    Raises NoSuchContainer, HostError, RuntimeFailure (ps fails, or shows no pids).
    """
    # List the processes before running ps, which could start some itself.
    pids = process_ids(context, container_id)
    return select(_run_ps(list(arguments) or ["-ef"]), pids)


def select(table: str, pids: Collection[int]) -> list[str]:
    """Return the heading of a table of ps(1), and the lines whose PID is one of ``pids``.

    Lines with ``-`` as PID are threads of the process above. Raises RuntimeFailure.
    """
    # splitlines() would also split at U+2028, which a process may have in its name.
    heading, *lines = table.removesuffix("\n").split("\n")
    columns = heading.split()
    if _PID not in columns:
        raise RuntimeFailure(
            "couldn't find PID field in ps output", "use a ps format with a PID column"
        )
    column = columns.index(_PID)
    wanted = {str(pid) for pid in pids}
    chosen = [heading]
    taken = False
    for line in lines:
        fields = line.split()
        if len(fields) <= column:
            continue
        if fields[column] != "-":
            taken = fields[column] in wanted
        if taken:
            chosen.append(line)
    return chosen


def _run_ps(arguments: list[str]) -> str:
    program = find_program("ps")
    if not program:
        missing = FileNotFoundError(2, "no such program")
        raise HostError("run ps", missing, "install procps, or use --format json")
    # Importing subprocess with its dependencies would take a third of the snapshot's heap, which
    # every create and exec would copy.
    out = posix.memfd_create("ps")
    problems = posix.memfd_create("ps")
    try:
        status = _spawn_and_wait([program, *arguments], out, problems)
        if status != 0:
            words = _content(problems).decode(errors="replace").split("\n")[0].strip()
            raise RuntimeFailure(f"ps {' '.join(arguments)}: {words or f'status {status}'}")
        return _content(out).decode("utf-8", "surrogateescape")
    finally:
        posix.close(out)
        posix.close(problems)


def _spawn_and_wait(argv: list[str], stdout: int, stderr: int) -> int:
    """Run a program with these streams; return its exit status, -N for signal N."""
    # Duplicate them to higher numbers first: with closed standard streams the files may be 0, 1 or
    # 2.
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (stdout, stderr)]
    streams = [
        (posix.POSIX_SPAWN_DUP2, fd, number) for number, fd in zip((1, 2), above, strict=True)
    ]
    try:
        ignored = (_signal.SIGPIPE, _signal.SIGXFSZ)  # by the interpreter
        pid = posix.posix_spawn(
            argv[0], argv, posix.environ, file_actions=streams, setsigdef=ignored
        )
    except OSError as error:
        raise HostError(f"run {argv[0]}", error) from None
    finally:
        for fd in above:
            posix.close(fd)
    return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])


def _content(fd: int) -> bytes:
    return posix.pread(fd, posix.fstat(fd).st_size, 0)
