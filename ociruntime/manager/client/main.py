"""The command line of ``ocictl``: find the command, run it, and turn errors into an exit status.

Exit status: 0 for success; 1 for a failure; 2 without a command; 130 when interrupted.  ``run`` and
``exec`` exit with the status of the container's program, or with 125 if they fail themselves.  If a
program does not start, the exit status is 127 if it is not found, 126 if it cannot be executed, and
125 for another reason.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import tell
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.command_table import PROGRAM
from ociruntime.manager.client.connection import Connection, DaemonError
from ociruntime.manager.client.options import SOCKET
from ociruntime.startup.snapshot import how_started, make_in_background

FAILED = 1
NO_CONTAINER = 125  # failure of a command whose exit status is otherwise the container's
_CONTAINER_STATUS = ("run", "exec")


def main(argv: list[str]) -> int:
    """Run ``ocictl`` with the arguments ``argv``; return the exit status."""
    return PROGRAM.main(argv, _run, failure_status)


def _run(command: Command, parsed: Arguments, arguments: Arguments) -> int:
    if arguments.flag("debug"):
        tell(PROGRAM.name, how_started(PROGRAM.name))
    make_in_background(PROGRAM.name)
    return command.run(Connection(arguments.text("socket", SOCKET)), parsed)


def failure_status(failure: RuntimeFailure, command: str) -> int:
    """Return the exit status of ``ocictl`` for a failure of ``command``.

    ``command`` is "" if the command line names no known command.
    """
    if isinstance(failure, DaemonError) and failure.exit_code:
        return failure.exit_code
    return NO_CONTAINER if command in _CONTAINER_STATUS else FAILED
