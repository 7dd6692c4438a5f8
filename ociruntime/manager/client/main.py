"""From the command line of ``ocictl`` to an exit status: the one place where its errors end.

Exit status: 0; 1 for any failure; 2 for a command line without a command; 130 when interrupted.
``run``, ``exec`` and ``wait`` end with the container's, and fail with 125.  A program that is not
there makes whatever was to start it end with 127, one that cannot be executed with 126.
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
NO_CONTAINER = 125  # of commands whose exit status is a container's
INTERRUPTED = 130
_LIKE_A_CONTAINER = ("run", "exec", "wait")


def main(argv: list[str]) -> int:
    """Runs the command ``argv`` (without the program's name).  Raises nothing."""
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
    """The exit status when ``command`` (its name, or nothing if none was found) fails."""
    if isinstance(failure, DaemonError) and failure.exit_code:
        return failure.exit_code
    return NO_CONTAINER if command[:1] and command[0] in _LIKE_A_CONTAINER else FAILED


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
        raise UsageError(f'"{name}" takes other arguments', hint)
    if arguments.flag("debug"):
        tell(PROGRAM, how_started(PROGRAM))
    make_in_background(PROGRAM)
    module_name = name.replace(" ", "_").replace("-", "_")
    module = __import__(f"ociruntime.manager.client.{module_name}", None, None, ("run",))
    status: int = module.run(Connection(arguments.text("socket", SOCKET)), arguments)
    return status


def _help_of(words: list[str]) -> str:
    from ociruntime.manager.client.help import help_of

    return help_of(words)


def _read_options(words: list[str], command: Command, arguments: Arguments) -> None:
    """Options and arguments; a container's command has its own, which are not looked at."""
    tables = (command[5], GLOBAL_OPTIONS)
    if command[0] in INSIDE:
        read_inside(words, tables, arguments)
    elif command[0] in OUTSIDE:
        arguments.positional += words[parse(words, tables, arguments, mixed=False) :]
    else:
        parse(words, tables, arguments)
