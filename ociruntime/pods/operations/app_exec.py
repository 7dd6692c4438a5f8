"""Run a command inside a running app, with the runtime's ``exec``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ociruntime.base.errors import PodError, UsageError
from ociruntime.base.files import memory_file
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls, failure, find_runtime
from ociruntime.pods.manifest.environment import with_term
from ociruntime.pods.store.description import app_record
from ociruntime.pods.store.manifest_file import read_object, read_runtime_config
from ociruntime.pods.store.pod import Pod


class Command:
    """A command to execute in an app; ``env`` (``NAME=VALUE``) extends the app's environment.

    ``user`` is ``UID[:GID]``.  Empty, ``user`` and ``cwd`` default to those of the app's process.
    """

    __slots__ = ("argv", "cwd", "env", "tty", "user")

    def __init__(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        env: Sequence[str] = (),
        user: str = "",
        cwd: str = "",
    ) -> None:
        self.argv = argv
        self.tty = tty
        self.env = env
        self.user = user
        self.cwd = cwd


def become_command(pod: Pod, app: str, command: Command, log: str = "") -> NoReturn:
    """Replace this process by the runtime's ``exec`` of ``command`` in ``app``.

    The runtime logs its own errors to the file ``log``, if given.  Raises PodError if the app is
    not running, UsageError.
    """
    runtime = _runtime_of(pod, app)
    runtime.become(log, ["exec", *_exec_arguments(runtime, pod, app, command)], (0, 1, 2))


def start_command(pod: Pod, app: str, command: Command) -> None:
    """Start ``command`` in ``app`` in the background, its streams connected to a null device.

    Raises PodError if the app is not running or the command cannot be executed; UsageError.
    """
    runtime = _runtime_of(pod, app)
    arguments = ["exec", "--detach", *_exec_arguments(runtime, pod, app, command)]
    log = os.memfd_create("log", os.MFD_CLOEXEC)
    path = f"/proc/{os.getpid()}/fd/{log}"
    child = os.fork()
    if child == 0:
        try:
            runtime.become(path, arguments, (-1, -1, -1))
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    message = failure(path, f"{runtime.program} exec failed without a message") if status else ""
    os.close(log)
    if message:
        raise PodError(message)


def _runtime_of(pod: Pod, app: str) -> RuntimeCalls:
    """Return the runtime of the pod.  Raises PodError if the app is not running."""
    if pod.state != "running":
        raise PodError(f"pod {pod.uuid} is not running: it is {pod.state}")
    state = app_record(pod, app)["state"]
    if state != "running":
        raise PodError(f'app "{app}" of pod {pod.uuid} is not running: it is {state}')
    config = read_runtime_config(pod)
    if config.get("flavor") == "kvm":
        hint = "use attach or logs"
        raise PodError(f"pod {pod.uuid}: exec is not supported for flavour kvm", hint)
    return RuntimeCalls(find_runtime(str(config.get("runtime") or "ociruntime")), pod.uuid)


def _exec_arguments(runtime: RuntimeCalls, pod: Pod, app: str, command: Command) -> list[str]:
    """Return the arguments of the runtime's ``exec``.  Raises UsageError."""
    container = runtime.container(app)
    if command.env or command.tty:
        own = read_object(pod, f"apps/{app}/bundle/config.json") or {}
        process = process_with(own.get("process") or {}, command)
        return ["--process", _memory_file(process), container]
    options = ["--user", command.user] if command.user else []
    options += ["--cwd", command.cwd] if command.cwd else []
    return [*options, container, *command.argv]


def process_with(own: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the OCI ``process`` for ``command``, derived from the app's ``own``.

    Needed for ``--env``, where runtimes differ: runc adds to the app's variables, crun replaces
    them; and for TERM on a terminal.  Raises UsageError.
    """
    process = {**own, "args": list(command.argv), "terminal": command.tty}
    variables = [*(own.get("env") or ()), *command.env]
    process["env"] = with_term(variables) if command.tty else variables
    if command.user:
        process["user"] = {**(own.get("user") or {}), **_ids(command.user)}
    if command.cwd:
        process["cwd"] = command.cwd
    return process


def _ids(user: str) -> dict[str, int]:
    numbers = user.split(":")
    if len(numbers) > 2 or not all(one.isascii() and one.isdigit() for one in numbers):
        raise UsageError(f"--user {user}: must be UID[:GID]", "names are not supported")
    return dict(zip(("uid", "gid"), map(int, numbers), strict=False))


def _memory_file(document: dict[str, Any]) -> str:
    """Write ``document`` to a memory file; return its path, which is valid across exec(2).

    A temporary file would have to be removed, which this process no longer can.
    """
    from ociruntime.base.json_text import dump

    return f"/proc/self/fd/{memory_file('process.json', dump(document).encode(), 0)}"
