"""The command line of ``ocid``; exit status 0 after SIGTERM or SIGINT, 1 after an error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ociruntime import __version__
from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.trusted import check_directory
from ociruntime.commandline.help import option_lines
from ociruntime.commandline.output import show_traceback, tell, write
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.daemon.lean_imports import prepare
from ociruntime.manager.daemon.options import DETAILS, OPTIONS, SOCKET, SUMMARY
from ociruntime.startup.snapshot import how_started, make_in_background

if TYPE_CHECKING:
    from ociruntime.manager.containers.settings import Settings

FAILED = 1


def main(argv: list[str]) -> int:
    """Run the daemon; return its exit status."""
    arguments = Arguments(as_runc=False)
    try:
        parse(argv, (OPTIONS,), arguments)
        return _run(arguments)
    except RuntimeFailure as failure:
        _print(str(failure))
        return FAILED
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last resort: one line, or a traceback with --debug
        if arguments.flag("debug"):
            show_traceback(error)
        _print(f"internal error: {type(error).__name__}: {error}")
        return FAILED


def _run(arguments: Arguments) -> int:
    if arguments.flag("help"):
        return write(help_text())
    if arguments.flag("version"):
        return write(f"ocid: {__version__}\n")
    if arguments.positional:
        raise UsageError("ocid takes no arguments", "ocid --help")
    if os.geteuid():
        raise UsageError("ocid must be run as root", "sudo ocid ...")
    debug = arguments.flag("debug")
    if debug:
        _print(how_started("ocid"))
    make_in_background("ocid")
    prepare()
    from ociruntime.manager.daemon.daemon import serve

    group = arguments.text("group", "root")
    return serve(settings_of(arguments), arguments.text("socket", SOCKET), group, debug)


def settings_of(arguments: Arguments) -> Settings:
    """Return the settings from the options, with absolute paths.  Raises UsageError, HostError."""
    from ociruntime.manager.containers.settings import DIRECTORY, ROOT, Settings

    runtime = arguments.text("runtime")
    return Settings(
        root=_trusted(arguments.text("root", ROOT)),
        directory=_trusted(arguments.text("dir", DIRECTORY)),
        runtime=os.path.abspath(runtime) if "/" in runtime else runtime,
        system_config=_absolute(arguments.text("system-config")),
        local_config=_absolute(arguments.text("local-config")),
        insecure=_checks(arguments, "insecure-options"),
        client_insecure=_checks(arguments, "allow-insecure"),
        debug=arguments.flag("debug"),
    )


def _checks(arguments: Arguments, option: str) -> tuple[str, ...]:
    from ociruntime.manager.containers.spec import INSECURE

    checks = tuple(check for check in arguments.text(option).split(",") if check)
    for check in checks:
        if check not in INSECURE:
            raise UsageError(f'--{option}: unknown check "{check}"', ", ".join(INSECURE))
    return checks


def _trusted(path: str) -> str:
    """Return the path without symbolic links.  Raises HostError if other users may change it."""
    path = os.path.join(os.getcwd(), path)
    check_directory(path, "data directory")
    return os.path.realpath(path)


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path else ""


def help_text() -> str:
    """Return the answer to ``--help``."""
    lines = [
        "usage: ocid [OPTION]...",
        "",
        f"{SUMMARY[0].upper()}{SUMMARY[1:]}.",
        "",
        DETAILS,
        "",
        "options:",
        *option_lines(OPTIONS),
    ]
    return "\n".join(lines) + "\n"


def _print(text: str) -> None:
    try:
        tell("ocid", text)
    except OSError:
        sys.exit(FAILED)
