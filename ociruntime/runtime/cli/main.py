"""The main function of ``ociruntime``: run a command, and report its error.

No other module reports errors. Exit status: 0 on success, 1 on failure (255 for ``exec``), 3 for an
unknown command, 130 when interrupted; ``run`` and ``exec`` return the status of the container's
program.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import InternalError, RuntimeFailure, UsageError, reason, unhandled
from ociruntime.base.log import Log
from ociruntime.base.process import end_at_once_on_signals
from ociruntime.commandline.options import Command
from ociruntime.commandline.parser import Arguments, parse, parse_command
from ociruntime.runtime.cli.command_table import GROUPS
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS
from ociruntime.runtime.lifecycle.context import Context

UNKNOWN_COMMAND = 3
INTERRUPTED = 130


OUT_OF_MEMORY = "out of memory (a limit of this process, its cgroup or the host is reached)"


def run_program(argv: list[str]) -> int:
    """Run ``main`` as a program, with the default action for signals.

    A signal ends the program at once, unless a command has installed a handler that first cleans
    up.
    """
    end_at_once_on_signals()
    return main(argv)


def main(argv: list[str]) -> int:
    """Run the command line ``argv`` (without the program's name); return the exit status.

    Every exception is caught and reported as a single line.
    """
    _open_standard_descriptors()
    arguments = Arguments()
    try:
        return _run(argv, arguments)
    except RuntimeFailure as failure:
        _report(str(failure), arguments)
        _show_traceback(failure, arguments)
        return failure.exit_status
    except KeyboardInterrupt as interruption:
        notes = getattr(interruption, "__notes__", ())
        _report("; ".join(["interrupted", *notes]), arguments)
        return INTERRUPTED
    except MemoryError as error:
        _report(OUT_OF_MEMORY, arguments)
        _show_traceback(error, arguments)
        return RuntimeFailure.exit_status
    except ImportError as error:
        _report(f"load the program's modules: {error}", arguments)
        _show_traceback(error, arguments)
        return RuntimeFailure.exit_status
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        _report(str(_unexpected(error)), arguments)
        _show_traceback(error, arguments)
        return InternalError.exit_status


def _run(argv: list[str], arguments: Arguments) -> int:
    """Parse ``argv`` into ``arguments`` and run the command; return its exit status."""
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if arguments.flag("version"):
        return _print_version()
    if at == len(argv):
        return _print_help("")
    name = argv[at]
    if name in ("help", "h"):
        return _print_help(argv[at + 1] if len(argv) > at + 1 else "")
    if _wants_help(arguments):
        return _print_help("")
    command = _find(name)
    # Global options are also accepted after the command.
    parse_command(argv[at + 1 :], command, GLOBAL_OPTIONS, arguments)
    if _wants_help(arguments):
        return _print_help(name)
    if arguments.flag("version"):
        return _print_version()
    _check_count(command, len(arguments.positional))
    context = _context(arguments)
    if context.log.debugging:
        from ociruntime.startup.snapshot import how_started

        context.log.debug(how_started())
    status = command.run(context, arguments)
    context.log.flush()
    return status


def _find(name: str) -> Command:
    """Return the command ``name``; import only the module that defines it.

    Raises UsageError for an unknown command.
    """
    for modules in GROUPS.values():
        for module_name, names in modules.items():
            if name in names:
                path = f"ociruntime.runtime.cli.{module_name}"
                module = __import__(path, None, None, ("COMMANDS",))
                commands: tuple[Command, ...] = module.COMMANDS
                return next(command for command in commands if command.name == name)
    from ociruntime.base.similar_names import closest

    groups = [names for modules in GROUPS.values() for names in modules.values()]
    close = closest(name, [command_name for names in groups for command_name in names])
    hint = f"did you mean {close}?" if close else "`ociruntime --help` lists the commands"
    failure = UsageError(f'unknown command "{name}"', hint)
    failure.exit_status = UNKNOWN_COMMAND
    raise failure


def _check_count(command: Command, count: int) -> None:
    """Raise UsageError unless the command accepts ``count`` arguments."""
    fewest, most = command.fewest, command.most
    if fewest <= count <= most:
        return
    if fewest == most:
        bound, number = "exactly", most
    elif count < fewest:
        bound, number = "a minimum of", fewest
    else:
        bound, number = "a maximum of", most
    raise UsageError(
        f'"{command.name}" requires {bound} {number} argument(s), {count} given',
        f"ociruntime {command.name} [OPTION]... {command.synopsis}".rstrip(),
    )


def _wants_help(arguments: Arguments) -> bool:
    return arguments.flag("help") or arguments.flag("usage")


def _print_help(name: str) -> int:
    from ociruntime.commandline.output import write
    from ociruntime.runtime.cli.help import help_of

    return write(help_of(_find(name) if name else None))


def _print_version() -> int:
    from ociruntime.commandline.output import write
    from ociruntime.runtime.cli.help import version_text

    return write(version_text())


def _context(arguments: Arguments) -> Context:
    """Return the context that the global options specify.

    Raises UsageError for an invalid option, and HostError if the working directory was deleted.
    """
    from ociruntime.runtime.lifecycle.context import open_context

    if arguments.texts.get("root") == "":
        raise UsageError('--root "": must not be empty', "name a directory")
    manager = arguments.text("cgroup-manager", "cgroupfs")
    return open_context(
        _log(arguments),
        arguments.text("root"),
        "systemd" if arguments.flag("systemd-cgroup") else manager,
        arguments.text("rootless", "auto"),
    )


def _log(arguments: Arguments) -> Log:
    """Open the log that the global options specify, and return it.

    Raises UsageError if ``--log`` is set to journald or syslog, or to a file that cannot be opened.
    """
    target = arguments.text("log")
    for scheme in ("journald:", "syslog:"):
        if target.startswith(scheme):
            arguments.texts["log"] = ""
            raise UsageError(f'--log "{target}": {scheme[:-1]} is not supported', "log to a file")
    level = arguments.text("log-level")
    log = Log(
        target.removeprefix("file:"),
        arguments.text("log-format", "text"),
        arguments.flag("debug") or level == "debug",
        level != "error",
    )
    try:
        log.open()
    except (OSError, ValueError, RuntimeFailure) as error:
        arguments.texts["log"] = ""  # the error goes to standard error
        cause = reason(error) if isinstance(error, OSError) else str(error)
        raise UsageError(
            f'--log "{target}": {cause}', "name a file that this user can write to"
        ) from None
    return log


def _report(message: str, arguments: Arguments) -> None:
    """Write an error to standard error and also to the file of ``--log``, if that can be opened."""
    try:
        log = _log(arguments)
    except UsageError:
        log = Log()
    log.error(message)


def _unexpected(error: Exception) -> RuntimeFailure:
    """Convert an unexpected exception to the RuntimeFailure to report.

    If the exception is a bug of ociruntime, the message names its source line.
    """
    failure = unhandled("run the command", error)
    if not isinstance(failure, InternalError):
        return failure
    place = ""
    frame = error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        place = f" at {file.rpartition('/ociruntime/')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    text = " ".join(str(error).split())
    cause = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return InternalError(f"internal error{place}: {cause}", "use --debug for a traceback")


def _show_traceback(error: BaseException, arguments: Arguments) -> None:
    """With ``--debug``, print the traceback to standard error.

    The traceback never goes to the log, because programs parse the log.
    """
    if not arguments.flag("debug"):
        return
    from ociruntime.commandline.output import show_traceback

    try:
        show_traceback(error)
    except OSError:
        return


def _open_standard_descriptors() -> None:
    """Open /dev/null as each of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next file that is opened would get that number, and receive output meant for a
    terminal.  The container also needs all three.
    """
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)  # returns the lowest free number, which is ``fd``
            posix.set_inheritable(fd, True)
