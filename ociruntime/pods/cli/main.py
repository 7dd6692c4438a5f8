"""The command line of ``ocipod``: find the command, run it, and turn errors into an exit status.

Exit status: 0 for success; 254 for any failure; 2 without a command; 130 when interrupted.  ``run``
and ``run-prepared`` exit with the status of the apps, ``enter`` and ``app exec`` with that of the
program.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.output import bug_of, report, write
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import PROGRAM
from ociruntime.startup.snapshot import how_started, make_in_background

FAILED = 254
NO_COMMAND = 2
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run the command ``argv`` (without the program's name); return its exit status."""
    arguments = Arguments(as_runc=False)
    try:
        return _run(argv, arguments)
    except RuntimeFailure as failure:
        report(PROGRAM.name, str(failure), failure, arguments.flag("debug"))
        return FAILED
    except KeyboardInterrupt as interrupt:
        report(PROGRAM.name, "interrupted", interrupt, arguments.flag("debug"))
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        report(PROGRAM.name, str(bug_of(error)), error, arguments.flag("debug"))
        return FAILED


def _run(argv: list[str], arguments: Arguments) -> int:
    request = PROGRAM.read(argv, arguments, [])
    if request is None:
        write(PROGRAM.help_of([]))
        return NO_COMMAND
    if isinstance(request, str):
        return write(request)
    command, parsed = request
    context = Context(arguments)
    if context.debug:
        context.log.debug(how_started(PROGRAM.name))
    make_in_background(PROGRAM.name)
    status = command.run(context, parsed)
    context.log.flush()
    return status
