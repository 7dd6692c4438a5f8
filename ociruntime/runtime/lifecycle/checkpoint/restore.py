"""`restore`: start a container from the files of a `checkpoint`."""

from __future__ import annotations

import os

from ociruntime.base.errors import ConfigError, ContainerError
from ociruntime.base.foreground import open_relay, wait_foreground
from ociruntime.base.process import become_subreaper, end_on_signals, no_longer_end_on_signals
from ociruntime.base.stream_socket import connect
from ociruntime.base.trusted_directories import check_directory
from ociruntime.runtime.host.criu import find_criu
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import make_directory
from ociruntime.runtime.lifecycle.checkpoint.criu_options import CriuOptions
from ociruntime.runtime.lifecycle.checkpoint.image_record import read_record
from ociruntime.runtime.lifecycle.checkpoint.restore_steps import Restoration
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.descriptors_and_terminal import check_terminal
from ociruntime.runtime.lifecycle.preparation import prepare
from ociruntime.runtime.lifecycle.run import delete_after_end


def restore(context: Context, options: CreateOptions, criu: CriuOptions) -> int:
    """Restore a container from CRIU images; return its init's exit status, or 0 with ``detach``.

    The images define the processes, config.json everything else.  Raises UsageError, ConfigError,
    ContainerExists, ContainerError, CriuError, HookError, HostError; after an error, nothing is
    left behind.
    """
    check_id(options.id)
    program = find_criu(criu.program)
    context.log.debug(f"criu: {program}")
    end_on_signals()
    if not os.path.isdir(criu.image_path):
        raise ContainerError(f'--image-path "{criu.image_path}": directory not found')
    check_directory(criu.image_path, "checkpoint")  # its images become privileged processes
    make_directory(criu.work_path)
    record = read_record(criu.image_path)
    prepared = prepare(context, options)
    if prepared.rdt or prepared.network_devices:
        # Both act on the init before it runs, which CRIU creates by itself.
        where = "linux.intelRdt" if prepared.rdt else "linux.netDevices"
        raise ConfigError(where, "not supported with `restore`", "remove it from config.json")
    check_terminal(prepared.config.get("process"), options.console_socket, options.detach)
    console = None
    if options.console_socket:
        console = connect(options.console_socket, "console socket")
    os.chdir(prepared.bundle.path)
    if not options.detach and not options.no_subreaper:
        become_subreaper()
    restoration = Restoration(context, options, prepared, console)
    restoration.describe(program, criu, record, foreground=not options.detach)
    restoration.run()
    if options.detach:
        no_longer_end_on_signals()
    restoration.held.release()
    restoration.lock.release()
    return 0 if options.detach else _wait(context, restoration, options)


def _wait(context: Context, restoration: Restoration, options: CreateOptions) -> int:
    """Wait in the foreground for the init to exit, delete the container, return the status."""
    pidfd = restoration.pidfd
    try:
        relay = open_relay(restoration.master)
        return wait_foreground(pidfd, restoration.pid, relay, restoration.signals)
    finally:
        os.close(pidfd)
        if not options.keep:
            delete_after_end(context, options.id)
