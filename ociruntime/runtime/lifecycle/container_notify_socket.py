"""Relay sd_notify(3) messages: `start` and `run` pass them from a container to the service manager.

Each container gets a notify socket of its own, and its program sends the messages there.
"""

from __future__ import annotations

import posix

from ociruntime.base.notify_socket import DIRECTORY, NAME, NotifyRelay
from ociruntime.base.process import open_process
from ociruntime.runtime.lifecycle.container import Container
from ociruntime.runtime.spec.config_types import Config, Mount

VARIABLE = b"NOTIFY_SOCKET"
INSIDE = "/run/notify"


def with_socket(config: Config, state_directory: str) -> Config:
    """Return a copy of ``config`` that mounts the notify socket and sets NOTIFY_SOCKET.

    Returns ``config`` unchanged if it has no process or no mount namespace.
    """
    process = config.get("process")
    namespaces = (config.get("linux") or {}).get("namespaces") or ()
    own_mounts = any(each["type"] == "mount" and not each.get("path") for each in namespaces)
    if not (process and own_mounts):
        return config
    mount: Mount = {
        "destination": INSIDE,
        "type": "bind",
        "source": f"{state_directory}/{DIRECTORY}",
        "options": ["bind", "ro", "nosuid", "nodev", "noexec"],
    }
    # This entry overrides an earlier NOTIFY_SOCKET in process.env.
    env = [*(process.get("env") or ()), f"NOTIFY_SOCKET={INSIDE}/{NAME}"]
    return {
        **config,
        "mounts": [*(config.get("mounts") or ()), mount],
        "process": {**process, "env": env},
    }


def open_relay(container: Container, main_pid: int) -> NotifyRelay | None:
    """Open the relay from the container's notify socket to the service manager's (NOTIFY_SOCKET).

    ``main_pid`` is the process that the service manager should watch (MAINPID).  Returns None if
    this process's environment has no NOTIFY_SOCKET.  Raises UsageError if NOTIFY_SOCKET is not a
    socket address, and HostError.
    """
    notify_socket = posix.environ.get(VARIABLE, b"")
    if not notify_socket:
        return None
    return NotifyRelay(container.directory, notify_socket, main_pid)


def await_ready(container: Container, relay: NotifyRelay) -> None:
    """Relay notifications until the container sends READY=1 or its init exits.

    Raises HostError.
    """
    pidfd = open_process(container.pid, container.started)
    try:
        relay.wait_ready(pidfd)
    finally:
        if pidfd >= 0:
            posix.close(pidfd)
