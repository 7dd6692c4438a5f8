"""``ocipod monitor``: supervises one pod; `run` and others become it by exec."""

from __future__ import annotations

import posix

from ociruntime.cli.output import write
from ociruntime.errors import RuntimeFailure
from ociruntime.log import plain
from ociruntime.pod.pod import RUN, phase_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context
    from ociruntime.pod.supervise import Supervisor

FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """The pod's exit code.  Raises RuntimeFailure, which who waits for the pod is told of."""
    told = arguments.number("detach-fd", -1)
    tell = _teller(told) if told >= 0 else None
    try:
        supervisor = _supervisor(context, arguments)
        if tell is not None:
            supervisor.tell = tell
        else:
            supervisor.stay_in_foreground()
            if arguments.flag("print-uuid"):
                supervisor.tell = lambda error: None if error else _print(supervisor.uuid)
    except RuntimeFailure as failure:
        if tell is None:
            raise
        tell(str(failure))
        return FAILED
    return supervisor.run()


def _supervisor(context: Context, arguments: Arguments) -> Supervisor:
    from ociruntime.monitor.own_mounts import leave_the_hosts
    from ociruntime.pod.supervise import Supervisor

    uuid = arguments.positional[0]
    lock = arguments.number("lock-fd", -1)
    posix.set_inheritable(lock, False)
    leave_the_hosts()
    path = phase_path(context.directory, RUN, uuid)
    posix.chdir(path)
    return Supervisor(path, uuid, lock, _warn)


def _warn(text: str) -> None:
    posix.write(2, f"ocipod: {plain(text)}\n".encode())


def _print(uuid: str) -> None:
    write(f"{uuid}\n")


def _teller(fd: int) -> Callable[[str], None]:
    """Tells who waits at the other end of ``fd`` once: a line feed, or an error's text."""
    posix.set_inheritable(fd, False)

    def tell(error: str) -> None:
        try:
            posix.write(fd, error.encode() or b"\n")
        except OSError:
            pass  # nobody waits any more
        posix.close(fd)

    return tell
