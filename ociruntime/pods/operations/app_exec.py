"""Run a command inside a running app, with the runtime's ``exec``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ociruntime.base.errors import PodError, UsageError
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls, failure, find_runtime
from ociruntime.pods.store.description import app_record
from ociruntime.pods.store.manifest_file import read_object, read_runtime_config
from ociruntime.pods.store.pod import Pod


class Command:
    """A command: its argv ``words``, and ``env`` (``NAME=VALUE``) added to the app's environment.

    ``user`` is ``UID[:GID]``.  An empty ``user`` or ``cwd`` defaults to that of the app's own
    process.
    """

    __slots__ = ("cwd", "env", "tty", "user", "words")

    def __init__(
        self,
        words: Sequence[str],
        *,
        tty: bool = False,
        env: Sequence[str] = (),
        user: str = "",
        cwd: str = "",
    ) -> None:
        self.words = words
        self.tty = tty
        self.env = env
        self.user = user
        self.cwd = cwd


def become_command(pod: Pod, app: str, command: Command, log: str = "") -> NoReturn:
    """Replace this process by ``command`` in ``app``; its exit status becomes ours.

    The runtime's own errors go to the file ``log``, if given.  Raises PodError if the app is not
    running, UsageError.
    """
    runtime = _runtime_of(pod, app)
    runtime.become(log, ["exec", *_words(runtime, pod, app, command)], (0, 1, 2))


def start_command(pod: Pod, app: str, command: Command) -> None:
    """Start ``command`` in ``app`` in the background, without streams.

    Raises PodError if the app is not running or the command cannot be executed; UsageError.
    """
    runtime = _runtime_of(pod, app)
    words = ["exec", "--detach", *_words(runtime, pod, app, command)]
    log = os.memfd_create("log", os.MFD_CLOEXEC)
    path = f"/proc/{os.getpid()}/fd/{log}"
    child = os.fork()
    if child == 0:
        try:
            runtime.become(path, words, (-1, -1, -1))
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    text = failure(path, f"{runtime.program} failed without a message") if status else ""
    os.close(log)
    if text:
        raise PodError(text)


def _runtime_of(pod: Pod, app: str) -> RuntimeCalls:
    """Return the runtime of the pod.  Raises PodError if the app is not running."""
    if pod.state != "running":
        raise PodError(f"pod {pod.uuid} is not running: it is {pod.state}")
    state = app_record(pod, app)["state"]
    if state != "running":
        raise PodError(f'app "{app}" of pod {pod.uuid} is not running: it is {state}')
    config = read_runtime_config(pod)
    if config.get("flavor") == "kvm":
        raise PodError(f"pod {pod.uuid}: exec is not supported for flavour kvm", "attach, or logs")
    return RuntimeCalls(find_runtime(str(config.get("runtime") or "ociruntime")), pod.uuid)


def _words(runtime: RuntimeCalls, pod: Pod, app: str, command: Command) -> list[str]:
    """Return the arguments of the runtime's ``exec``.  Raises UsageError."""
    container = runtime.container(app)
    if command.env:
        own = read_object(pod, f"apps/{app}/bundle/config.json") or {}
        process = process_with(own.get("process") or {}, command)
        return ["--process", _descriptor_of(process), container]
    words = ["--tty"] if command.tty else []
    words += ["--user", command.user] if command.user else []
    words += ["--cwd", command.cwd] if command.cwd else []
    return [*words, container, *command.words]


def process_with(own: Mapping[str, Any], command: Command) -> dict[str, Any]:
    """Return the app's process with the options applied, as a runtime's ``exec`` does.

    Needed for ``--env``, where runtimes differ: runc adds to the app's variables, crun replaces
    them.
    Raises UsageError.
    """
    process = {**own, "args": list(command.words), "terminal": command.tty}
    process["env"] = [*(own.get("env") or ()), *command.env]
    if command.user:
        process["user"] = {**(own.get("user") or {}), **_ids(command.user)}
    if command.cwd:
        process["cwd"] = command.cwd
    return process


def _ids(user: str) -> dict[str, int]:
    numbers = user.split(":")
    if len(numbers) > 2 or not all(one.isascii() and one.isdigit() for one in numbers):
        raise UsageError(f"--user {user}: must be UID[:GID]", "numeric ids only")
    return dict(zip(("uid", "gid"), map(int, numbers), strict=False))


def _descriptor_of(document: dict[str, Any]) -> str:
    """Return the path of a memory file, because after exec(2) nobody could remove a real one."""
    from ociruntime.base.json_text import dump

    fd = os.memfd_create("process.json", 0)
    os.write(fd, dump(document).encode())
    return f"/proc/self/fd/{fd}"
