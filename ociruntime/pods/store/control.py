"""Asking a running pod's monitor; ``requests.py`` answers."""

from __future__ import annotations

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.store.pod import RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from typing import Any

    from ociruntime.pods.store.pod import Pod
else:
    import _socket

SOCKET = "ctl"
# It was never there, nobody listens any more, or the monitor ended in the middle.
_GONE = (2, 104, 111, 32)  # ENOENT, ECONNRESET, ECONNREFUSED, EPIPE


def connect(pod: Pod, seconds: float | None = None) -> _socket.socket:
    """A connection to the monitor; with ``seconds`` nothing on it may take longer.

    Raises PodError if the pod does not run, HostError.
    """
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    sock.settimeout(seconds)
    try:
        # Through the descriptor: a Unix socket's address has little room for a path.
        sock.connect(f"/proc/self/fd/{pod.fd}/{SOCKET}")
    except OSError as error:
        sock.close()
        if error.errno in _GONE:
            raise _not_running(pod) from None
        raise HostError(f"connect to the monitor of pod {pod.uuid}", error) from None
    return sock


def ask(pod: Pod, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
    """The answer to ``request``: an object with ``op`` and what that needs; in time, if told.

    Raises PodError with what the monitor says, or if the pod does not run; HostError.
    """
    sock = connect(pod, seconds)
    try:
        return ask_over(sock, request)
    finally:
        sock.close()


def ask_over(sock: _socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """As ``ask``, over a connection that stays."""
    from ociruntime.pods.loop.control_socket import ask as ask_connected

    return ask_connected(sock, request)


def _not_running(pod: Pod) -> PodError:
    before = pod.state
    state = pod.refresh()
    if pod.phase == RUN and state == "running":
        return PodError(f"pod {pod.uuid} is not ready yet", "ocipod status --wait-ready")
    more = " any more" if before == "running" else ""
    return PodError(f"pod {pod.uuid} is not running{more}: it is {state}")
