"""``ocictl exec``: run a program in a running container."""

from __future__ import annotations

import posix

from ociruntime.base.errors import UsageError
from ociruntime.base.terminal import DETACH_KEYS, parse_keys
from ociruntime.manager.client.connection import container
from ociruntime.manager.client.session import DETACHED, Session
from ociruntime.manager.client.websocket import TEXT, open_websocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.connection import Connection


def run(connection: Connection, arguments: Arguments) -> int:
    """Run the program; return its exit code, or 0 on detach.  Raises RuntimeFailure."""
    import json

    request = exec_request(arguments)
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    socket = open_websocket(connection, container(arguments.positional[0], "exec"))
    try:
        socket.send(TEXT, json.dumps(request).encode())
        session = Session(
            socket, tty=request["tty"], with_input=request["stdin"], keys=keys, metered=True
        )
        code = session.run()
    finally:
        socket.close()
    return 0 if code == DETACHED else code


def exec_request(arguments: Arguments) -> dict[str, Any]:
    """Return the exec request for the daemon.  Raises UsageError."""
    tty = arguments.flag("tty")
    stdin = arguments.flag("interactive")
    if tty and stdin and not posix.isatty(0):
        raise UsageError("--tty: standard input is not a terminal", "leave out --tty")
    size = _window_size() if tty else None
    return {
        "command": arguments.positional[1:],
        "tty": tty,
        "stdin": stdin,
        "user": arguments.text("user"),
        "env": [variable(word) for word in arguments.list("env")],
        "working_dir": arguments.text("workdir"),
        "detach": arguments.flag("detach"),
        **({"size": size} if size else {}),
    }


def _window_size() -> tuple[int, int] | None:
    from ociruntime.base.terminal import window_size

    return window_size(0) or window_size(1)


def variable(word: str) -> str:
    """Return ``NAME=VALUE``; like docker, copy the value of a bare ``NAME`` from our environment.

    Raises UsageError.
    """
    name, equals, _ = word.partition("=")
    if not name:
        hint = "NAME=VALUE, or NAME to copy it from the environment"
        raise UsageError(f'--env: "{word}" has no name', hint)
    if equals:
        return word
    value = posix.environ.get(name.encode("utf-8", "surrogateescape"), b"")
    return f"{name}={value.decode('utf-8', 'surrogateescape')}"
