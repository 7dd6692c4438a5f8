"""The command line of ``ocictl``: find the command, run it, and turn errors into an exit status.

Exit status: 0 for success; 1 for any failure; 2 without a command; 130 when interrupted.  ``run``,
``exec`` and ``wait`` exit with the container's status, and with 125 on failure.  A command that
starts a program exits with 127 if the program is not found, and 126 if it cannot be executed.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.output import bug_of, report, tell, write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, DaemonError
from ociruntime.manager.client.options import PROGRAM, SOCKET
from ociruntime.startup.snapshot import how_started, make_in_background

FAILED = 1
NO_COMMAND = 2
NO_CONTAINER = 125  # for commands whose exit status is the container's
INTERRUPTED = 130
_CONTAINER_STATUS = ("run", "exec", "wait")


def main(argv: list[str]) -> int:
    """Run the command ``argv`` (without the program's name); return its exit status."""
    arguments = Arguments(as_runc=False)
    command: list[str] = []
    try:
        return _run(argv, arguments, command)
    except RuntimeFailure as failure:
        report(PROGRAM.name, str(failure), failure, arguments.flag("debug"))
        return failure_status(failure, command)
    except KeyboardInterrupt as interrupt:
        report(PROGRAM.name, "interrupted", interrupt, arguments.flag("debug"))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        bug = bug_of(error)
        report(PROGRAM.name, str(bug), error, arguments.flag("debug"))
        return failure_status(bug, command)


def failure_status(failure: RuntimeFailure, command: list[str]) -> int:
    """Return the exit status for a failure of ``command`` ([its name], [] if none was found)."""
    if isinstance(failure, DaemonError) and failure.exit_code:
        return failure.exit_code
    return NO_CONTAINER if command[:1] and command[0] in _CONTAINER_STATUS else FAILED


def _run(argv: list[str], arguments: Arguments, found: list[str]) -> int:
    request = PROGRAM.read(argv, arguments, found)
    if request is None:
        write(PROGRAM.help_of([]))
        return NO_COMMAND
    if isinstance(request, str):
        return write(request)
    command, parsed = request
    if arguments.flag("debug"):
        tell(PROGRAM.name, how_started(PROGRAM.name))
    make_in_background(PROGRAM.name)
    return command.run(Connection(arguments.text("socket", SOCKET)), parsed)
