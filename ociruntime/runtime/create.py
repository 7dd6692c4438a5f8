"""`create`: everything but the program itself."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError
from ociruntime.runtime.creation import Creation
from ociruntime.runtime.identifier import check_id
from ociruntime.runtime.preparation import check_terminal, prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal

    from ociruntime.runtime.options import Context, CreateOptions
else:
    import _signal


def create(context: Context, options: CreateOptions) -> None:
    """Make the container; when this returns, its first process waits for `start`.

    Raises UsageError, ConfigError, ContainerExists, HostError, StepError, HookError; after
    any of them nothing is left.
    """
    begin(context, options).lock.release()


def begin(context: Context, options: CreateOptions) -> Creation:
    """As ``create``, but the lock is still held, for a caller that starts it at once."""
    check_id(options.id)
    _end_on_signals()
    prepared = prepare(context, options)
    check_terminal(prepared.config, options.console_socket, options.detach)
    console = None
    if options.console_socket:
        from ociruntime.host.console_socket import connect

        console = connect(options.console_socket)
    # Hooks run here, and whatever is relative in the bundle is relative to it.
    try:
        posix.chdir(prepared.bundle.path)
    except OSError as error:
        raise HostError(f"chdir {prepared.bundle.path}", error) from None
    creation = Creation(context, options, prepared, console)
    creation.run()
    return creation


def _end_on_signals() -> None:
    """SIGTERM and SIGHUP end a creation as SIGINT does: by an exception, undone in order."""
    _signal.signal(_signal.SIGTERM, _signal.default_int_handler)
    _signal.signal(_signal.SIGHUP, _signal.default_int_handler)
