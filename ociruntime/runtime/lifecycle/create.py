"""`create`: set up a container whose init waits for `start`; create_steps.py contains the steps."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.process import end_on_signals, no_longer_end_on_signals
from ociruntime.runtime.host.state_directory import FILTERS
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.prepare_create import prepare
from ociruntime.runtime.lifecycle.terminal_options import check_terminal


def create(context: Context, options: CreateOptions) -> None:
    """Create a container, whose init then waits for `start`.

    After an error, nothing is left behind.  Raises UsageError for an invalid id or option,
    ConfigError, ContainerExists, HostError, StepError and HookError.
    """
    creation = begin(context, options)
    if context.alone:
        no_longer_end_on_signals()
    creation.held.release()
    creation.lock.release()
    context.save_times()


def begin(context: Context, options: CreateOptions) -> Creation:
    """Create a container; return with the container locked and signals blocked.

    The caller must release ``held`` and ``lock`` of the result.  Raises the errors of ``create``.
    """
    check_id(options.id)
    prepared = prepare(context, options, f"{context.root}/{FILTERS}")
    # Catch signals only now: their default action also ends a wait for a filesystem that no
    # longer answers, from which no handler would be called.
    if context.alone:
        end_on_signals()
    check_terminal(prepared.config.get("process"), options.console_socket, options.detach)
    console = None
    if options.console_socket:
        from ociruntime.base.stream_socket import connect

        # Connect first: if the socket is missing, there is nothing to undo.
        console = connect(options.console_socket, "console socket")
    receiver = None
    pidfd_socket = options.pidfd_socket
    if prepared.annotations and not pidfd_socket:
        from ociruntime.runtime.spec.annotations import PIDFD_RECEIVER, host_path

        pidfd_socket = host_path(prepared.annotations, PIDFD_RECEIVER)
    if pidfd_socket:
        from ociruntime.runtime.host.console_and_pidfd_sockets import connect_pidfd_socket

        receiver = connect_pidfd_socket(pidfd_socket)
    # Hooks run in this directory, and relative paths in config.json start there.
    try:
        posix.chdir(prepared.bundle.path)
    except OSError as error:
        raise HostError(f'change to the bundle directory "{prepared.bundle.path}"', error) from None
    creation = Creation(context, options, prepared, console, receiver)
    try:
        creation.run()
    except BaseException:
        context.save_times()
        raise
    return creation
