"""The command line of ``ocictl``: find the command, run it, and turn errors into an exit status.

Exit status: 0 for success; 1 for any failure; 2 without a command; 130 when interrupted.  ``run``,
``exec`` and ``wait`` exit with the container's status, and with 125 on failure.  A command that
starts a program exits with 127 if the program is not found, and 126 if it cannot be executed.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.commands import find, read_inside
from ociruntime.commandline.output import bug_of, report, tell, write
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.client.connection import Connection, DaemonError
from ociruntime.manager.client.options import COMMANDS, GLOBAL_OPTIONS, INSIDE, OUTSIDE, SOCKET
from ociruntime.startup.snapshot import how_started, make_in_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command

PROGRAM = "ocictl"
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
        report(PROGRAM, str(failure), failure, arguments.flag("debug"))
        return failure_status(failure, command)
    except KeyboardInterrupt as interrupt:
        report(PROGRAM, "interrupted", interrupt, arguments.flag("debug"))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        bug = bug_of(error)
        report(PROGRAM, str(bug), error, arguments.flag("debug"))
        return failure_status(bug, command)


def failure_status(failure: RuntimeFailure, command: list[str]) -> int:
    """Return the exit status for a failure of ``command`` ([its name], [] if none was found)."""
    if isinstance(failure, DaemonError) and failure.exit_code:
        return failure.exit_code
    return NO_CONTAINER if command[:1] and command[0] in _CONTAINER_STATUS else FAILED


def _run(argv: list[str], arguments: Arguments, found: list[str]) -> int:
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if at == len(argv) or argv[at] == "help":
        if at == len(argv):
            write(_help_of([]))
            return 0 if arguments.flag("help") else NO_COMMAND
        return write(_help_of(argv[at + 1 :]))
    if argv[at + 1 : at + 2] in (["--help"], ["-h"]):
        return write(_help_of(argv[at : at + 1]))
    command, used = find(argv[at:], COMMANDS, PROGRAM)
    name = command[0]
    found.append(name)
    _read_options(argv[at + used :], command, arguments)
    if arguments.flag("help"):
        return write(_help_of(name.split()))
    fewest = 0 if name in OUTSIDE and arguments.text("rootfs") else command[2]
    if not fewest <= len(arguments.positional) <= command[3]:
        hint = f"ocictl {name} {command[1]}".rstrip()
        raise UsageError(f'"{name}": wrong number of arguments', hint)
    if arguments.flag("debug"):
        tell(PROGRAM, how_started(PROGRAM))
    make_in_background(PROGRAM)
    module_name = name.replace(" ", "_").replace("-", "_")
    module = __import__(f"ociruntime.manager.client.{module_name}", None, None, ("run",))
    status: int = module.run(Connection(arguments.text("socket", SOCKET)), arguments)
    return status


def _help_of(names: list[str]) -> str:
    from ociruntime.manager.client.help import help_of

    return help_of(names)


def _read_options(words: list[str], command: Command, arguments: Arguments) -> None:
    """Parse options and arguments; the options of a container's command are left alone."""
    tables = (command[5], GLOBAL_OPTIONS)
    if command[0] in INSIDE:
        read_inside(words, tables, arguments)
    elif command[0] in OUTSIDE:
        arguments.positional += words[parse(words, tables, arguments, mixed=False) :]
    else:
        parse(words, tables, arguments)
