"""`run`: create and start in one; without --detach also wait for the end, and delete."""

from __future__ import annotations

import posix

from ociruntime.errors import NoSuchContainer
from ociruntime.host.files import exists
from ociruntime.host.process import become_subreaper
from ociruntime.runtime.container import load, lock
from ociruntime.runtime.create import begin
from ociruntime.runtime.delete import destroy
from ociruntime.runtime.start import start_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.host.relay import Relay
    from ociruntime.runtime.creation import Creation
    from ociruntime.runtime.options import Context, CreateOptions


def run(context: Context, options: CreateOptions) -> int:
    """The program's exit status (128+n if signal n ended it), or 0 with ``detach``.

    Raises what ``create`` and ``start`` raise; after an error nothing is left.
    """
    if options.detach:
        creation = begin(context, options)
        try:
            _start(context, creation)
        finally:
            creation.lock.release()
        return 0
    return _run_attached(context, options)


def _start(context: Context, creation: Creation) -> None:
    """Start what was just created; if that fails, the container goes too."""
    container = load(context.root, creation.id)
    try:
        start_locked(context, container)
    except BaseException:
        if exists(container.directory):  # a failed hook has taken it already
            destroy(context, container)
        raise


def _run_attached(context: Context, options: CreateOptions) -> int:
    from ociruntime.host.foreground import CaughtSignals, wait_foreground

    if not options.no_subreaper:
        become_subreaper()
    creation = begin(context, options)
    try:
        relay = _relay(creation.master)
        signals = CaughtSignals()
        try:
            _start(context, creation)
        except BaseException:
            signals.release()
            raise
    finally:
        creation.lock.release()
    executor = creation.executor
    try:
        return wait_foreground(executor.pidfd, executor.pid, relay, signals)
    finally:
        posix.close(executor.pidfd)
        if not options.keep:
            _delete(context, options.id)


def _relay(master: int) -> Relay | None:
    """Between our terminal and the container's, if it has one."""
    if master < 0:
        return None
    from ociruntime.host.relay import Relay
    from ociruntime.host.terminal import find_terminal

    return Relay(master, find_terminal())


def _delete(context: Context, container_id: str) -> None:
    try:
        container, held = lock(context.root, container_id)
    except NoSuchContainer:
        return  # somebody else was faster
    try:
        destroy(context, container)
    finally:
        held.release()
