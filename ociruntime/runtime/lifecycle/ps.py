"""`ps`: list a container's processes, as pids or in the format of the host's ps(1)."""

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

_PID = "PID"


def process_ids(context: Context, container_id: str) -> list[int]:
    """Return the pids of a container's processes in ascending order, or [] if it has stopped.

    Raises UsageError for an invalid id, NoSuchContainer and HostError.
    """
    check_id(container_id)
    return members(load(context.root, container_id))


def process_table(context: Context, container_id: str, arguments: Sequence[str]) -> list[str]:
    """Return the heading and the lines that the host's ps(1) prints for a container's processes.

    ``arguments`` are the arguments of ps; the default is ``-ef``.  Raises UsageError for an invalid
    id, NoSuchContainer, HostError, and RuntimeFailure if ps fails or prints no PID column.
    """
    # List the processes before ps runs: ps itself may start some.
    pids = process_ids(context, container_id)
    return select(_run_ps(list(arguments) or ["-ef"]), pids)


def select(table: str, pids: Collection[int]) -> list[str]:
    """Return the heading and the lines of ``pids`` in ``table``, which is the output of ps(1).

    A line with ``-`` in the PID column is a thread of the process above it, and goes with that
    process.  Raises RuntimeFailure if the heading has no PID column.
    """
    # splitlines() would also split at U+2028, which a process may have in its name.
    heading, *lines = table.removesuffix("\n").split("\n")
    columns = heading.split()
    if _PID not in columns:
        raise RuntimeFailure(
            "couldn't find PID field in ps output", "use a ps format with a PID column"
        )
    column = columns.index(_PID)
    pid_texts = {str(pid) for pid in pids}
    selected = [heading]
    is_member = False
    for line in lines:
        fields = line.split()
        if len(fields) <= column:
            continue
        if fields[column] != "-":
            is_member = fields[column] in pid_texts
        if is_member:
            selected.append(line)
    return selected


def _run_ps(arguments: list[str]) -> str:
    program = find_program("ps")
    if not program:
        missing = FileNotFoundError(2, "no such program")
        raise HostError("run ps", missing, "install procps, or use --format json")
    # Importing subprocess with its dependencies would take a third of the snapshot's heap, which
    # every create and exec would copy.
    files: list[int] = []
    try:
        files += [posix.memfd_create("ps")]
        files += [posix.memfd_create("ps")]
        out, problems = files
        status = _spawn_and_wait([program, *arguments], out, problems)
        if status != 0:
            cause = _content(problems).decode(errors="replace").split("\n")[0].strip()
            raise RuntimeFailure(
                f"run ps {' '.join(arguments)}: {cause or f'exited with status {status}'}"
            )
        return _content(out).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise HostError(f'run "{program}"', error) from None
    finally:
        for fd in files:
            posix.close(fd)


def _spawn_and_wait(argv: list[str], stdout: int, stderr: int) -> int:
    """Run ``argv``; return its exit status, or -N if signal N killed it.

    ``stdout`` and ``stderr`` are the descriptors for its output.  Raises OSError.
    """
    # Duplicate the descriptors to 3 and up: with closed standard streams, they may be 0 to 2.
    above: list[int] = []
    try:
        for fd in (stdout, stderr):
            above.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))
        streams = [
            (posix.POSIX_SPAWN_DUP2, fd, number) for number, fd in zip((1, 2), above, strict=True)
        ]
        ignored = (_signal.SIGPIPE, _signal.SIGXFSZ)  # the interpreter ignores these
        pid = posix.posix_spawn(
            argv[0], argv, posix.environ, file_actions=streams, setsigdef=ignored
        )
    finally:
        for fd in above:
            posix.close(fd)
    return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])


def _content(fd: int) -> bytes:
    return posix.pread(fd, posix.fstat(fd).st_size, 0)
