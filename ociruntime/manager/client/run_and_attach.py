"""The commands ``run``, ``create``, ``exec`` and ``attach``, and attaching to containers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ociruntime.base.detach_keys import DETACH_KEYS, parse_keys
from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.terminal import window_size
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, DaemonError, container
from ociruntime.manager.client.new_container import SPEC_OPTIONS, created, lines_of
from ociruntime.manager.client.options import (
    ATTACH_STATUS,
    CONTAINER_STATUS,
    DETACH_KEYS_OPTION,
)
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.stream_relay import DETACHED, SIGPIPE_STATUS, Session, parse
from ociruntime.manager.client.websocket import TEXT, WebSocket, open_websocket

_STREAMS: tuple[str, ...] = ("stdin", "stdout", "stderr")


class Attachment:
    """An attachment to the streams of the container ``ref``.

    With ``wait``, attaches before the container's next start.  ``__init__`` opens the attachment;
    it raises the errors of ``Connection``.
    """

    def __init__(
        self,
        connection: Connection,
        ref: str,
        *,
        streams: tuple[str, ...] = (),
        wait: bool = False,
        keys: bytes = b"",
        forward_signals: bool = True,
    ) -> None:
        self._connection = connection
        self._ref = ref
        names = ",".join(streams) or None
        # Do not resize the container's terminal for a client that only watches the output.
        sized = wait or not streams or "stdin" in streams
        # Send the size with the request, so that the terminal has this size at the program's start.
        size = window_size(0) if sized else None
        rows_columns = f"{size[0]},{size[1]}" if size else None
        path = container(ref, "attach", streams=names, wait=wait, size=rows_columns)
        self._socket: WebSocket = open_websocket(connection, path)
        messages: list[tuple[int, bytes]] = []
        while not messages:
            if self._socket.is_closed:
                raise RuntimeFailure("attach: ocid closed the connection", "see ocid's log")
            messages = self._socket.receive()
        answer = parse(messages[0][1])
        self._session = Session(
            self._socket,
            tty=bool(answer.get("tty")),
            with_input="stdin" in answer.get("streams", ()),
            keys=keys,
            sized=sized,
            early=messages[1:],
        )
        self._session.on_signal = self._signal if forward_signals else None
        # Send SIGPIPE only to a program that we start: it has no other reader of its output.
        self._session.passes_sigpipe = wait

    def run(self) -> int:
        """Relay the streams until the container exits; return its exit code.

        Returns DETACHED if the user detaches, SIGPIPE_STATUS if standard output is closed.  Raises
        RuntimeFailure if the connection fails.
        """
        return self._session.run()

    def _signal(self, number: int) -> None:
        try:
            self._connection.post(container(self._ref, "kill"), {"signal": str(number)})
        except RuntimeFailure:
            return  # not an error: the container may have exited already

    def close(self) -> None:
        """Close the attachment; the container keeps running."""
        self._socket.close()


def in_foreground(
    connection: Connection, ref: str, arguments: Arguments, *, stdin: bool
) -> int | None:
    """Start a container, relay its streams until it exits, and return its exit status.

    With ``stdin``, also relays standard input.  Returns None if the user detaches.  Raises
    UsageError for an invalid option, RuntimeFailure if the container does not start.
    """
    return stay(started(connection, ref, arguments, stdin=stdin))


def started(connection: Connection, ref: str, arguments: Arguments, *, stdin: bool) -> Attachment:
    """Attach to a container, start the container, and return the attachment.

    Raises UsageError for an invalid option, RuntimeFailure if the container does not start.
    """
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = _STREAMS if stdin else _STREAMS[1:]
    if chosen := [word.lower() for word in arguments.list("attach")]:
        streams = tuple(name for name in streams if name in chosen)
    # Attach before the start, so that no output is lost.
    attachment = Attachment(
        connection,
        ref,
        streams=streams,
        wait=True,
        keys=keys,
        forward_signals=arguments.flags.get("sig-proxy", True),
    )
    try:
        connection.post(container(ref, "start"))
    except BaseException:
        attachment.close()
        raise
    return attachment


def stay(attachment: Attachment) -> int | None:
    """Relay an attachment's streams until the container exits; return its exit status.

    Returns None if the user detaches.  Raises RuntimeFailure if the connection fails.
    """
    try:
        status = attachment.run()
    finally:
        attachment.close()
    return None if status == DETACHED else status


def run_run(connection: Connection, arguments: Arguments) -> int:
    """Create and start a container; return its exit status, or 0 with ``--detach``.

    Raises UsageError for an invalid option.
    """
    detach = arguments.flag("detach")
    _check_attach(arguments, detach=detach)
    if arguments.flag("tty") and arguments.flag("interactive") and not detach:
        check_terminal("omit --tty")
    container_id = created(connection, arguments)["id"]
    try:
        attachment = _start(connection, container_id, arguments)
    except DaemonError:
        # The daemon applies --rm only after an exit, and this container has never run.
        if arguments.flag("rm"):
            _try(connection.delete, container(container_id, force=True))
        raise
    if attachment is None:
        return write(f"{container_id}\n")
    status = stay(attachment)
    if status is None:
        return 0
    if arguments.flag("rm") and status != SIGPIPE_STATUS:
        # Wait for the removal, so that the next command of a script does not find the container.
        _try(connection.post, container(container_id, "wait"), {"condition": "removed"})
    return status


def _check_attach(arguments: Arguments, *, detach: bool) -> None:
    """Raise UsageError if the values of ``--attach`` are invalid."""
    streams = arguments.list("attach")
    for word in streams:
        if word.lower() not in _STREAMS:
            raise UsageError(
                f'--attach: unknown stream "{word}"', f"supported: {', '.join(_STREAMS)}"
            )
    if streams and detach:
        raise UsageError("--attach cannot be combined with --detach")
    if streams == ["stdin"] or ("stdin" in streams and not arguments.flag("interactive")):
        raise UsageError(
            "--attach=stdin requires --interactive and an output stream",
            "for example -i -a stdin -a stdout",
        )


def _start(connection: Connection, container_id: str, arguments: Arguments) -> Attachment | None:
    """Start a container; return the attachment to it, or None with ``--detach``."""
    if arguments.flag("detach"):
        connection.post(container(container_id, "start"))
        return None
    return started(connection, container_id, arguments, stdin=arguments.flag("interactive"))


def _try(act: Callable[..., object], *args: object) -> None:
    """Call ``act(*args)``; ignore a RuntimeFailure, because the container may have been removed."""
    try:
        act(*args)
    except RuntimeFailure:
        return


def run_create(connection: Connection, arguments: Arguments) -> int:
    """Create a container and print its id.

    Raises UsageError for an invalid option.
    """
    return write(f"{created(connection, arguments)['id']}\n")


def run_exec(connection: Connection, arguments: Arguments) -> int:
    """Run a program in a container; return the program's exit code, or 0 if the user detaches.

    Raises UsageError for an invalid option, RuntimeFailure if the program does not start.
    """
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
    """Return the JSON of the exec request for the options of ``exec``.

    Raises UsageError for an invalid option.
    """
    tty = arguments.flag("tty")
    stdin = arguments.flag("interactive")
    if tty and stdin and not arguments.flag("detach"):
        check_terminal("omit --tty")
    size = _window_size() if tty else None
    lines = [line for path in arguments.list("env-file") for line in lines_of(path, "--env-file")]
    settings = [line for line in lines if line and line[0] != "#"] + arguments.list("env")
    return {
        "command": arguments.positional[1:],
        "tty": tty,
        "stdin": stdin,
        "user": arguments.text("user"),
        "env": [text for word in settings if (text := variable(word))],
        "working_dir": arguments.text("workdir"),
        "detach": arguments.flag("detach"),
        **({"size": size} if size else {}),
    }


def check_terminal(hint: str) -> None:
    """Raise UsageError with the remedy ``hint`` unless standard input is a terminal.

    A pipe's end of input cannot be signalled through a container's terminal: a shell that reads a
    script from the pipe would wait forever.
    """
    if not os.isatty(0):
        raise UsageError("attach a terminal: the input device is not a TTY", hint)


def _window_size() -> tuple[int, int] | None:
    return window_size(0) or window_size(1)


def variable(word: str) -> str:
    """Return ``NAME=VALUE`` for ``word``, a value of ``--env``.

    For a NAME without ``=``, copies the value from the environment of ocictl; returns "" if NAME is
    not set there.  Raises UsageError if the name is empty.
    """
    name, equals, _ = word.partition("=")
    if not name:
        hint = "use NAME=VALUE, or NAME to copy the variable from the environment"
        raise UsageError(f'--env: the variable "{word}" has no name', hint)
    if equals:
        return word
    return f"{name}={os.environ[name]}" if name in os.environ else ""


def run_attach(connection: Connection, arguments: Arguments) -> int:
    """Attach to a running container; return its exit code, or 0 if the user detaches.

    Raises RuntimeFailure if the container is not running.
    """
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    ref = arguments.positional[0]
    if arguments.flag("no-stdin"):
        streams: tuple[str, ...] = ("stdout", "stderr")
    else:
        streams = ()
        spec = connection.get(container(ref))["spec"]
        if spec.get("tty") and spec.get("stdin"):
            check_terminal("use --no-stdin")
    forward_signals = arguments.flags.get("sig-proxy", True)
    attachment = Attachment(
        connection, ref, streams=streams, keys=keys, forward_signals=forward_signals
    )
    try:
        code = attachment.run()
    finally:
        attachment.close()
    return 0 if code == DETACHED else code


SIGNALS_OPTION = Option("sig-proxy", "forward signals to the container (default: true)")
# ``--net`` is an alias of ``--network`` in docker and podman.
NEW_OPTIONS = (*SPEC_OPTIONS, Option("net", value="NAME"))
_GROUPS = (
    (
        "files and devices",
        ("volume", "volumes-from", "mount", "tmpfs", "read-only", "device"),
    ),
    (
        "network and names",
        (
            *("network", "network-alias", "publish", "publish-all", "hostname", "domainname"),
            *("dns", "dns-search", "dns-option", "add-host"),
        ),
    ),
    (
        "limits",
        (
            *("memory", "memory-swap", "memory-reservation", "shm-size", "cpus", "cpu-shares"),
            *("cpu-quota", "cpu-period", "cpuset-cpus", "cpuset-mems", "pids-limit", "ulimit"),
            "oom-score-adj",
        ),
    ),
    (
        "privileges and namespaces",
        (
            *("group-add", "cap-add", "cap-drop", "security-opt", "privileged", "sysctl"),
            *("ipc", "pid", "uts"),
        ),
    ),
)
COMMANDS = (
    Command(
        "run IMAGE [COMMAND [ARG]...]",
        "create and start a container",
        run_run,
        fewest=0,
        options=(
            Option("detach", "run in the background and print the ID", short="d"),
            DETACH_KEYS_OPTION,
            Option("attach", "attach only to this stream", "STREAM", kind="list", short="a"),
            SIGNALS_OPTION,
            *NEW_OPTIONS,
            *refused("run"),
        ),
        option_groups=_GROUPS,
        options_end=1,
        details="With --rootfs there is no IMAGE: all arguments are the command.",
        examples=(
            ("Run a command, then remove the container", "ocictl run --rm busybox echo hello"),
            ("Open a shell in a new container", "ocictl run --rm -it busybox sh"),
            (
                "Run a server with a memory limit, restart it on failure",
                "ocictl run -d --name web --restart on-failure:5 -m 512M nginx",
            ),
            (
                "Mount a directory of the host read-only",
                "ocictl run -d -v /srv/pages:/usr/share/nginx/html:ro nginx",
            ),
            (
                "Run a root filesystem without an image",
                "ocictl run --rm --rootfs ./rootfs /bin/sh -c 'echo hello'",
            ),
        ),
        exit_status=CONTAINER_STATUS,
    ),
    Command(
        "create IMAGE [COMMAND [ARG]...]",
        "create a container without starting it",
        run_create,
        fewest=0,
        options=(*NEW_OPTIONS, *refused("create")),
        option_groups=_GROUPS,
        options_end=1,
        details="With --rootfs there is no IMAGE: all arguments are the command.",
        examples=(
            ("Create a container to start later", "ocictl create --name job busybox sleep 10"),
        ),
    ),
    Command(
        "exec CONTAINER COMMAND [ARG]...",
        "run a command in a running container",
        run_exec,
        options=(
            Option("interactive", "keep stdin open", short="i"),
            Option("tty", "allocate a pseudo-terminal", short="t"),
            Option("detach", "run in the background", short="d"),
            Option("user", "user name or UID", "USER[:GROUP]", short="u"),
            Option(
                "workdir", "working directory in the container", "DIR", short="w", completed=False
            ),
            Option("env", "set an environment variable", "NAME[=VALUE]", kind="list", short="e"),
            Option("env-file", "read environment variables from a file", "FILE", kind="list"),
            DETACH_KEYS_OPTION,
            *refused("exec"),
        ),
        options_end=2,
        details="Exits with the status of the command.",
        examples=(("Open a shell in a container", "ocictl exec -it web sh"),),
        exit_status=CONTAINER_STATUS,
    ),
    Command(
        "attach CONTAINER",
        "attach to the streams of a running container",
        run_attach,
        options=(Option("no-stdin", "do not attach stdin"), DETACH_KEYS_OPTION, SIGNALS_OPTION),
        details="Exits with the status of the container.",
        exit_status=ATTACH_STATUS,
    ),
)
