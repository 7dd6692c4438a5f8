"""The client's side of a pod's control socket: send requests to the pod's monitor.

``pods/monitor/control_requests.py`` handles the requests.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.stream_socket import connect_through_signals
from ociruntime.pods.store.pod import RUN, Pod

SOCKET = "ctl"
# Errors if the pod has no socket (yet), no process listens on it, or the monitor exits meanwhile.
_GONE = (errno.ENOENT, errno.ECONNRESET, errno.ECONNREFUSED, errno.EPIPE)


def connect(pod: Pod, seconds: float | None = None) -> socket.socket:
    """Return a socket connected to the control socket of the pod's monitor.

    Each operation on the socket times out after ``seconds``, or never if that is None.  Raises
    PodError if the pod is not running or not ready yet, HostError if the connection fails.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    sock.settimeout(seconds)
    try:
        # Connect through the descriptor: sun_path has room for 108 bytes only.
        connect_through_signals(sock, f"/proc/self/fd/{pod.fd}/{SOCKET}")
    except OSError as error:
        sock.close()
        if error.errno in _GONE:
            raise _not_running(pod) from None
        raise HostError(f"connect to the monitor of pod {pod.uuid}", error) from None
    return sock


def ask(pod: Pod, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
    """Send the JSON object ``request`` to the pod's monitor and return its reply.

    ``request`` has a member ``op``, the name of an operation, and the parameters of that operation.
    Each operation on the socket times out after ``seconds``, or never if that is None.

    Raises PodError if the pod is not running or not ready yet.  Raises PodError with the monitor's
    error message if the request fails.  Raises HostError if the connection fails.
    """
    sock = connect(pod, seconds)
    try:
        return ask_over(sock, request)
    finally:
        sock.close()


def ask_over(sock: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """Send ``request`` over ``sock``, the result of ``connect``, and return the monitor's reply.

    Raises PodError with the monitor's error message if the request fails, HostError if the
    connection fails.
    """
    from ociruntime.pods.loop.control_socket import ask as ask_connected

    return ask_connected(sock, request)


def _not_running(pod: Pod) -> PodError:
    before = pod.state
    state = pod.refresh()
    if pod.phase == RUN and state == "running":
        hint = f"wait for it with: ocipod status --wait-ready {pod.uuid}"
        return PodError(f"connect to the monitor of pod {pod.uuid}: not ready yet", hint)
    more = " any more" if before == "running" else ""
    return PodError(f'pod {pod.uuid} is not running{more}: its state is "{state}"')
