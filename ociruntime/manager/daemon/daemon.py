"""The daemon's main loop: load containers, serve requests, shut down on a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any

from aiohttp import web

from ociruntime.base.errors import UsageError, unhandled
from ociruntime.base.log import plain
from ociruntime.base.process import heed_ignored_signals
from ociruntime.base.trusted_directories import check_directory
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.api.routes import make_application
from ociruntime.manager.containers.container_spec import INSECURE
from ociruntime.manager.containers.daemon_settings import DIRECTORY, ROOT, Settings
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.daemon.daemon_socket import Notifier, activated, listen
from ociruntime.manager.daemon.options import SOCKET

log = logging.getLogger("ocid")

_SHUTDOWN_TIMEOUT = 5.0  # seconds for requests in progress at shutdown
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def serve(arguments: Arguments) -> int:
    """Run the daemon until SIGTERM or SIGINT; return 0, its exit status.

    Raises RuntimeFailure if the daemon cannot start, for example because another daemon is running.
    """
    settings = settings_of(arguments)
    level = logging.DEBUG if settings.debug else logging.INFO
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    if not settings.debug:
        logging.getLogger("asyncio").setLevel(logging.ERROR)
    if sys.version_info < (3, 12):  # later versions of asyncio use pidfds by default
        asyncio.set_child_watcher(_Children())
    asyncio.run(_serve(settings, arguments.text("socket", SOCKET), arguments.text("group", "root")))
    return 0


if sys.version_info < (3, 12):

    class _Children(asyncio.PidfdChildWatcher):
        """Wait for child processes through pidfds, without a thread for each child."""

        def add_child_handler(  # type: ignore[override]
            self,
            pid: int,
            callback: Any,  # noqa: ANN401 - as in the superclass
            *args: Any,  # noqa: ANN401
        ) -> None:
            """Watch the child ``pid``; if that fails, kill the child and raise OSError.

            A child that is not killed would keep running after the caller has reported an error.
            """
            try:
                super().add_child_handler(pid, callback, *args)
            except OSError:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise


def settings_of(arguments: Arguments) -> Settings:
    """Return the settings that the daemon's options give, with absolute paths.

    Raises UsageError for an unknown security check, HostError if users other than root can replace
    a data directory.
    """
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
    checks = tuple(check for check in arguments.text(option).split(",") if check)
    for check in checks:
        if check not in INSECURE:
            hint = f"supported: {', '.join(INSECURE)}"
            raise UsageError(f'--{option}: unknown security check "{check}"', hint)
    return checks


def _trusted(path: str) -> str:
    """Return ``path`` with symbolic links resolved.

    Raises HostError if users other than root can replace the directory.
    """
    path = os.path.join(os.getcwd(), path)
    check_directory(path, "data directory")
    return os.path.realpath(path)


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path else ""


class Lines(logging.Formatter):
    """A log formatter that prevents log injection by requests, containers and libraries.

    It escapes control characters.  It indents tracebacks, so that no line of a traceback looks like
    a log entry.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the base
        """Return a log entry's first line, with control characters escaped."""
        return plain(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - of the base
        """Return a traceback with its lines indented and control characters escaped."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - of the base
        """Return a stack trace with its lines indented and control characters escaped."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join([f"    {plain(line)}" for line in text.split("\n")])


def _log_unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception, as the event loop's exception handler.

    An OSError is not a bug, so it is logged as one line; other exceptions are logged with a
    traceback.
    """
    error = context.get("exception")
    if isinstance(error, OSError):
        log.error("%s", unhandled(context["message"], error))
    else:
        loop.default_exception_handler(context)


async def _serve(settings: Settings, path: str, group: str) -> None:
    heed_ignored_signals()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    # An empty handler instead of SIG_IGN, which containers would inherit.
    loop.add_signal_handler(signal.SIGHUP, _ignore)
    loop.set_exception_handler(_log_unexpected)
    notify = Notifier()
    passed = activated()
    manager = Manager(settings)
    _raise_descriptor_limit()
    await manager.open()
    sock = passed
    try:
        sock = passed or listen(path, group)
        runner = web.AppRunner(
            make_application(manager), access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT
        )
        await runner.setup()
        await web.SockSite(runner, sock).start()
        log.info("containers in %s, listening on %s", settings.root, sock.getsockname())
        notify("READY=1")
        await over.wait()
        notify("STOPPING=1")
        log.info("shutting down; containers keep running")
        manager.abandon()
        await runner.cleanup()
    finally:
        if passed is None and sock is not None:
            with suppress(OSError):
                os.unlink(
                    path
                )  # while we hold the data directory's lock: no new daemon can have replaced it
        await manager.close()


def _ignore() -> None:
    pass


def _raise_descriptor_limit() -> None:
    """Raise RLIMIT_NOFILE to the hard limit: each container keeps its pod's directory open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
