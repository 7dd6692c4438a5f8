"""The command line of ``ocipod``: find the command, run it, and turn errors into an exit status.

Exit status: 0 for success; 254 for any failure; 2 without a command; 130 when interrupted.  ``run``
and ``run-prepared`` exit with the status of the apps, ``enter`` and ``app exec`` with that of the
program.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.commands import find, read_inside
from ociruntime.commandline.output import bug_of, report, write
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import COMMANDS, GLOBAL_OPTIONS, INSIDE, RAW
from ociruntime.startup.snapshot import how_started, make_in_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command

PROGRAM = "ocipod"
FAILED = 254
NO_COMMAND = 2
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run the command ``argv`` (without the program's name); return its exit status."""
    arguments = Arguments(as_runc=False)
    try:
        return _run(argv, arguments)
    except RuntimeFailure as failure:
        report(PROGRAM, str(failure), failure, arguments.flag("debug"))
        return FAILED
    except KeyboardInterrupt as interrupt:
        report(PROGRAM, "interrupted", interrupt, arguments.flag("debug"))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        report(PROGRAM, str(bug_of(error)), error, arguments.flag("debug"))
        return FAILED


def _run(argv: list[str], arguments: Arguments) -> int:
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if at == len(argv) or argv[at] == "help":
        if at == len(argv):
            write(_help_of([]))
            return 0 if arguments.flag("help") else NO_COMMAND
        return write(_help_of(argv[at + 1 :]))
    if argv[at + 1 : at + 2] in (["--help"], ["-h"]):
        return write(_help_of(argv[at : at + 1]))
    command, used = find(argv[at:], COMMANDS, PROGRAM)
    rest = argv[at + used :]
    name = command[0]
    if name not in RAW:
        _read_options(rest, command, arguments)
    if arguments.flag("help") or (name in RAW and rest[:1] in (["--help"], ["-h"])):
        from ociruntime.pods.cli.help import command_help

        return write(command_help(command))
    if name not in RAW and not command[2] <= len(arguments.positional) <= command[3]:
        hint = f"ocipod {name} {command[1]}".rstrip()
        raise UsageError(f'"{name}": wrong number of arguments', hint)
    context = Context(arguments)
    if context.debug:
        context.log.debug(how_started(PROGRAM))
    make_in_background(PROGRAM)
    module_name = name.replace(" ", "_").replace("-", "_")
    module = __import__(f"ociruntime.pods.cli.{module_name}", None, None, ("run",))
    # A RAW command parses its own arguments, since their order matters.
    status: int = module.run(context, rest if name in RAW else arguments)
    context.log.flush()
    return status


def _help_of(words: list[str]) -> str:
    from ociruntime.pods.cli.help import help_of

    return help_of(words)


def _read_options(words: list[str], command: Command, arguments: Arguments) -> None:
    """Parse options and arguments; for ``INSIDE``, the command in the app is left alone."""
    tables = (command[5], GLOBAL_OPTIONS)
    if command[0] in INSIDE:
        read_inside(words, tables, arguments)
    else:
        parse(words, tables, arguments)
