"""The command line of ``ocid``.

The exit status is 0 after SIGTERM or SIGINT, 1 after an error, 130 if the start is interrupted.
"""

from __future__ import annotations

import os
import sys

from ociruntime import __version__
from ociruntime.base.errors import RuntimeFailure, UsageError, unhandled
from ociruntime.commandline.help import option_lines
from ociruntime.commandline.output import show_traceback, tell, write
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.daemon.options import DETAILS, OPTIONS, SUMMARY
from ociruntime.startup.snapshot import how_started, make_in_background

FAILED = 1


def main(argv: list[str]) -> int:
    """Run ``ocid`` with the arguments ``argv``; return its exit status."""
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
        _print(str(unhandled("run the daemon", error)))
        return FAILED


def _run(arguments: Arguments) -> int:
    if arguments.flag("help"):
        return write(help_text())
    if arguments.flag("version"):
        return write(f"ocid: {__version__}\n")
    if arguments.positional:
        raise UsageError("ocid takes no arguments, only options", "see ocid --help")
    if os.geteuid():
        raise UsageError("start ocid: it must be run as root", "use sudo ocid ...")
    if arguments.flag("debug"):
        _print(how_started("ocid"))
    make_in_background("ocid")
    prepare()
    from ociruntime.manager.daemon.daemon import (
        serve,
    )  # slow, because it imports aiohttp: --help and --version do without

    return serve(arguments)


def prepare() -> None:
    """Prevent the import of aiohttp from reading the host's data; call this before the import.

    Otherwise, the import creates two TLS contexts with the host's certificates for the HTTP
    client, reads the host's table of MIME types, and caches the host's name.  This takes time, and
    the daemon needs none of it, because it uses only the HTTP server.  Also, a snapshot of the
    interpreter must not contain data of the host.  After this call, ``import ssl`` fails, as in an
    interpreter that was built without ssl.
    """
    import mimetypes
    import platform

    if "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    mimetypes.knownfiles.clear()
    # The original function calls uname(2) and caches all fields, including the host's name.
    platform.system = lambda: "Linux"


def help_text() -> str:
    """Return the text that ``ocid --help`` prints."""
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
