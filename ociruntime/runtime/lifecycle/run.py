"""`run`: create and start a container; without --detach, wait until it exits and delete it."""

from __future__ import annotations

import posix

from ociruntime.base.errors import NoSuchContainer, RuntimeFailure
from ociruntime.base.notify_socket import NotifyRelay
from ociruntime.base.process import (
    become_subreaper,
    no_longer_end_on_signals,
    without_interruption,
)
from ociruntime.runtime.lifecycle.container import Container, lock
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create import begin
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.delete import destroy
from ociruntime.runtime.lifecycle.start import start_locked


def run(context: Context, options: CreateOptions) -> int:
    """Create and start a container; return its init's exit status, or 128+n for signal n.

    Waits for the init to exit, and deletes the container.  With ``detach``, returns 0 as soon as
    the program runs.  After an error, nothing is left behind.  Raises the errors of ``create`` and
    ``start``.
    """
    if options.detach:
        creation = begin(context, options)
        container = creation.container()
        try:
            notifying = _start(context, options, creation)
        finally:
            creation.lock.release()
        if notifying is not None:
            from ociruntime.runtime.lifecycle.container_notify_socket import await_ready

            await_ready(container, notifying)
        return 0
    return _run_attached(context, options)


def _start(context: Context, options: CreateOptions, creation: Creation) -> NotifyRelay | None:
    """Start the new container and return its notify relay; on failure, delete the container.

    The relay is None if there is nothing to relay.
    """
    container = creation.container()
    try:
        if options.detach:  # in the foreground, signals stay blocked and are forwarded later
            creation.held.release()
        main_pid = container.pid if options.detach else posix.getpid()
        notifying = start_locked(context, container, main_pid, deletes=False)
        # With a notify relay, a signal must still end the wait for READY=1.
        if options.detach and context.alone and notifying is None:
            no_longer_end_on_signals()
        return notifying
    except BaseException:
        _undo(context, container)
        raise
    finally:
        context.save_times()


def _undo(context: Context, container: Container) -> None:
    """Delete a container that could not be started, and run its poststop hooks."""
    without_interruption(destroy, context, container)


def _run_attached(context: Context, options: CreateOptions) -> int:
    from ociruntime.base.foreground import SignalQueue, open_relay, wait_foreground

    if not options.no_subreaper:
        become_subreaper()
    creation = begin(context, options)
    try:
        container = creation.container()
        try:
            relay = open_relay(creation.master)
            signals = SignalQueue()
        except BaseException:
            _undo(context, container)
            raise
        try:
            notifying = _start(context, options, creation)
        except BaseException:
            signals.release()
            raise
    finally:
        creation.lock.release()
    executor = creation.executor
    try:
        return wait_foreground(executor.pidfd, executor.pid, relay, signals, notifying)
    finally:
        posix.close(executor.pidfd)
        if not options.keep:
            try:
                delete_after_end(context, options.id)
            except RuntimeFailure as error:
                hint = f'container "{options.id}" has stopped, but was not deleted'
                error.hint = f"{error.hint}; {hint}" if error.hint else hint
                raise


def delete_after_end(context: Context, container_id: str) -> None:
    """Delete a container that has stopped; do nothing if it no longer exists.

    Raises HostError.
    """
    try:
        container, held = lock(context.root, container_id)
    except NoSuchContainer:
        return  # another command has deleted it
    try:
        destroy(context, container)
    finally:
        held.release()
