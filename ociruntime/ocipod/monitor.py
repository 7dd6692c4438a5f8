"""``ocipod monitor``: supervises one pod; `run` and others become it by exec."""

from __future__ import annotations

import posix

from ociruntime.cli.output import write
from ociruntime.errors import RuntimeFailure
from ociruntime.pod.pod import RUN, phase_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """The pod's exit code.  Raises RuntimeFailure."""
    uuid = arguments.positional[0]
    lock = arguments.number("lock-fd", -1)
    told = arguments.number("detach-fd", -1)
    try:
        return _supervise(context, uuid, lock, told, arguments.flag("print-uuid"))
    except RuntimeFailure as failure:
        if told < 0:
            raise
        _tell(told, str(failure))
        return 254


def _supervise(context: Context, uuid: str, lock: int, told: int, print_uuid: bool) -> int:
    from ociruntime.monitor.own_mounts import leave_the_hosts
    from ociruntime.pod.supervise import Supervisor

    for fd in (lock, told):
        if fd >= 0:
            posix.set_inheritable(fd, False)
    leave_the_hosts()
    path = phase_path(context.directory, RUN, uuid)
    posix.chdir(path)
    supervisor = Supervisor(path, uuid, lock, context.log)
    if told >= 0:
        supervisor.tell = lambda error: _tell(told, error)
    else:
        supervisor.stay_in_foreground()
        if print_uuid:
            supervisor.tell = lambda error: None if error else _print(uuid)
    return supervisor.run()


def _print(uuid: str) -> None:
    write(f"{uuid}\n")


def _tell(fd: int, error: str) -> None:
    """Who waits for the pod gets one byte and the error's text; nobody may wait any more."""
    try:
        posix.write(fd, error.encode() or b"\n")
        posix.close(fd)
    except OSError:
        return
