"""The command line of ``ocipod``: find the command, run it, and return its exit status.

Exit status: 0 for success; 254 for any failure; 2 without a command; 130 when interrupted.  ``run``
and ``run-prepared`` exit with the status of the apps, ``enter`` and ``app exec`` with the status of
the program.
"""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.options import Command
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.cli.command_table import PROGRAM
from ociruntime.pods.cli.context import Context
from ociruntime.pods.manifest.app_arguments import PodArguments
from ociruntime.startup.snapshot import how_started, make_in_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

FAILED = 254


def main(argv: list[str]) -> int:
    """Run the command ``argv`` (without the program's name); return its exit status."""
    return PROGRAM.main(argv, _run, _failure_status)


def _run(command: Command, parsed: Arguments | PodArguments, arguments: Arguments) -> int:
    # If the caller ignores SIGCHLD, the kernel reaps our children before waitpid(2) can.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    context = Context(arguments)
    context.tie_to_parent()
    if context.debug:
        context.log.debug(how_started(PROGRAM.name))
    make_in_background(PROGRAM.name)
    status = command.run(context, parsed)
    context.log.flush()
    return status


def _failure_status(failure: RuntimeFailure, command: str) -> int:
    del failure, command
    return FAILED
