"""Connect to the seccomp agent, which handles system calls matching SCMP_ACT_NOTIFY rules.

The agent listens on a stream socket.  For each process that gets the filter, the runtime opens a
connection and sends one message.  It consists of the container process state (config-linux.md) and,
as SCM_RIGHTS, the descriptor of the filter's notifications.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.json_text import dump
from ociruntime.base.stream_socket import connect, send_descriptor
from ociruntime.runtime.spec.state_document import SPEC_VERSION

LISTENER = "seccompFd"
SECONDS = 30.0  # timeout for an agent that does not accept or does not read


class SeccompAgent:
    """A connection to the seccomp agent at ``path``.

    ``metadata`` is ``linux.seccomp.listenerMetadata`` of config.json.
    """

    __slots__ = ("_metadata", "_path", "_socket")

    def __init__(self, path: str, metadata: str | None) -> None:
        """Connect to the agent.  Raises HostError if the connection fails."""
        self._path = path
        self._metadata = metadata
        self._socket = connect(path, "seccomp agent", SECONDS)

    def hand_on(self, listener: int, pid: int, state: dict[str, Any]) -> None:
        """Send ``listener`` and the container process state of ``pid``, then close the connection.

        ``listener``: descriptor of the seccomp notifications.  ``state``: the container's state
        (runtime-spec, runtime.md).  Raises HostError if they cannot be sent.
        """
        data = dump(process_state(pid, self._metadata, state)).encode("utf-8", "surrogateescape")
        action = f'send the notification descriptor to the seccomp agent "{self._path}"'
        send_descriptor(self._socket, listener, data, action)


def process_state(pid: int, metadata: str | None, state: dict[str, Any]) -> dict[str, Any]:
    """Return the container process state of ``pid`` (config-linux.md#containerprocessstate).

    ``metadata`` is ``linux.seccomp.listenerMetadata``, ``state`` the container's state.
    """
    document: dict[str, Any] = {"ociVersion": SPEC_VERSION, "fds": [LISTENER], "pid": pid}
    if metadata is not None:
        document["metadata"] = metadata
    document["state"] = state
    return document
