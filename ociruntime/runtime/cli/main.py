"""Run the command line and return its exit status: the one place where errors are handled.

Exit status: 0; 1 for any failure, 255 for one of ``exec``; 3 for an unknown command; 130 when
interrupted; the program's own status for ``run`` and ``exec``.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import InternalError, RuntimeFailure, UsageError
from ociruntime.base.log import Log
from ociruntime.commandline.options import ANY
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.runtime.cli.options import COMMANDS, GLOBAL_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command
    from ociruntime.runtime.lifecycle.options import Context

UNKNOWN_COMMAND = 3
INTERRUPTED = 130


def main(argv: list[str]) -> int:
    """Run the command ``argv`` (without the program's name). Raises nothing."""
    _open_standard_descriptors()
    arguments = Arguments()
    try:
        return _run(argv, arguments)
    except RuntimeFailure as failure:
        _report(str(failure), arguments)
        _show_traceback(failure, arguments)
        return failure.exit_status
    except KeyboardInterrupt:
        _report("interrupted", arguments)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line, never a traceback
        _report(str(_internal_error(error)), arguments)
        _show_traceback(error, arguments)
        return InternalError.exit_status


def _run(argv: list[str], arguments: Arguments) -> int:
    at = parse(argv, (GLOBAL_OPTIONS,), arguments, mixed=False)
    if arguments.flag("version"):
        return _show("version", "")
    if at == len(argv):
        return _show("help", "")
    name = argv[at]
    if name in ("help", "h"):
        return _show("help", _find(argv[at + 1])[0] if len(argv) > at + 1 else "")
    if _wants_help(arguments):
        return _show("help", "")
    command = _find(name)
    # Global options are also accepted after the command.
    _parse_command(argv[at + 1 :], command, arguments)
    if _wants_help(arguments):
        return _show("help", name)
    if arguments.flag("version"):
        return _show("version", "")
    _check_count(command, len(arguments.positional))
    context = _context(arguments)
    if context.log.debugging:
        from ociruntime.startup.snapshot import how_started

        context.log.debug(how_started())
    # Load only the command's own module; the table has its name.
    module = __import__(f"ociruntime.runtime.cli.{name}", None, None, ("run",))
    status: int = module.run(context, arguments)
    context.log.flush()
    return status


def _parse_command(argv: list[str], command: Command, arguments: Arguments) -> None:
    """Parse a command; if it runs another program, options in that program's command line are
    skipped.
    """
    mixed = command[3] != ANY
    at = parse(argv, (command[5], GLOBAL_OPTIONS), arguments, mixed=mixed)
    arguments.positional += argv[at:]


def _find(name: str) -> Command:
    for command in COMMANDS:
        if command[0] == name:
            return command
    from ociruntime.commandline.suggestions import closest

    close = closest(name, [command[0] for command in COMMANDS])
    hint = f"did you mean {close}?" if close else "ociruntime --help lists the commands"
    failure = UsageError(f'unknown command "{name}"', hint)
    failure.exit_status = UNKNOWN_COMMAND
    raise failure


def _check_count(command: Command, count: int) -> None:
    name, synopsis, fewest, most = command[:4]
    if fewest <= count <= most:
        return
    if fewest == most:
        bound, number = "exactly", most
    elif count < fewest:
        bound, number = "a minimum of", fewest
    else:
        bound, number = "a maximum of", most
    raise UsageError(
        f'"{name}" requires {bound} {number} argument(s), {count} given',
        f"ociruntime {name} [OPTION]... {synopsis}".rstrip(),
    )


def _wants_help(arguments: Arguments) -> bool:
    return arguments.flag("help") or arguments.flag("usage")


def _show(what: str, command: str) -> int:
    if what == "version":
        from ociruntime.runtime.cli.version import version_text

        text = version_text()
    else:
        from ociruntime.runtime.cli.help import command_help, general_help

        text = command_help(command) if command else general_help()
    from ociruntime.commandline.output import write

    return write(text)


def _context(arguments: Arguments) -> Context:
    from ociruntime.runtime.lifecycle.options import open_context

    if arguments.texts.get("root") == "":
        raise UsageError("--root must not be empty")
    manager = arguments.text("cgroup-manager", "cgroupfs")
    return open_context(
        _log(arguments),
        arguments.text("root"),
        "systemd" if arguments.flag("systemd-cgroup") else manager,
        arguments.text("rootless", "auto"),
    )


def _log(arguments: Arguments) -> Log:
    target = arguments.text("log")
    for scheme in ("journald:", "syslog:"):
        if target.startswith(scheme):
            arguments.texts["log"] = ""
            raise UsageError(f"--log {target}: {scheme[:-1]} is not supported", "name a file")
    level = arguments.text("log-level")
    return Log(
        target.removeprefix("file:"),
        arguments.text("log-format", "text"),
        arguments.flag("debug") or level == "debug",
        level in ("warning", "info"),
    )


def _report(message: str, arguments: Arguments) -> None:
    try:
        log = _log(arguments)
    except UsageError:
        log = Log()
    log.error(message)


def _internal_error(error: Exception) -> InternalError:
    """Describe the error and its location in one line, as needed for a bug report."""
    place = ""
    frame = error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        place = f" at {file.rpartition('/ociruntime/')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    text = " ".join(str(error).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return InternalError(f"internal error{place}: {what}", "use --debug for a traceback")


def _show_traceback(error: BaseException, arguments: Arguments) -> None:
    """Print it on standard error only: the log is parsed by programs."""
    if not arguments.flag("debug"):
        return
    from ociruntime.commandline.output import show_traceback

    try:
        show_traceback(error)
    except OSError:
        return


def _open_standard_descriptors() -> None:
    """Open /dev/null for each of 0, 1 and 2 that is closed.

    Else the next file opened would take the number and receive what is meant for a terminal;
    and the container is to have all three.
    """
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            opened = posix.open("/dev/null", posix.O_RDWR)
            if opened != fd:
                posix.dup2(opened, fd)
                posix.close(opened)
            posix.set_inheritable(fd, True)
