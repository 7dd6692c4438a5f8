"""Run a command inside a running app, with the runtime's ``exec``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ociruntime.base.errors import HostError, PodError, UsageError
from ociruntime.base.files import memory_file
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls, failure, find_runtime
from ociruntime.pods.bundle.users import Account, account
from ociruntime.pods.manifest.environment import with_term
from ociruntime.pods.store.manifest_file import read_object, read_runtime_config
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.pod_status import app_record


class Command:
    """A command to execute in an app.

    ``env`` are variables ``NAME=VALUE`` that are added to the app's environment.  ``user`` is
    ``USER[:GROUP]``, names or numbers.  If ``user`` or ``cwd`` is "", the command runs with the
    user or working directory of the app's process.
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
    """Replace this process with the OCI runtime, which executes ``command`` in the app.

    The runtime logs its own errors to the file ``log``, if that is not "".  Raises PodError if the
    app is not running or the user is not found, UsageError for an invalid user.
    """
    runtime = _runtime_of(pod, app)
    runtime.become(log, ["exec", *_exec_arguments(runtime, pod, app, command)], (0, 1, 2))


def start_command(pod: Pod, app: str, command: Command) -> None:
    """Start ``command`` in ``app`` in the background, with its streams connected to /dev/null.

    Raises PodError if the app is not running or the command cannot be executed, UsageError for an
    invalid user.
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
    silent = f'run a command in app "{app}": the OCI runtime failed and logged no error'
    message = failure(path, silent) if status else ""
    os.close(log)
    if message:
        raise PodError(message)


def _runtime_of(pod: Pod, app: str) -> RuntimeCalls:
    """Return the OCI runtime that runs the app.

    Raises PodError if no command can be executed in the app, for example because it is not running.
    """
    if pod.state != "running":
        raise PodError(f'pod {pod.uuid} is not running: its state is "{pod.state}"')
    state = app_record(pod, app)["state"]
    if state != "running":
        raise PodError(f'app "{app}" of pod {pod.uuid} is not running: its state is "{state}"')
    config = read_runtime_config(pod)
    if config.get("flavor") == "kvm":
        hint = "use attach or logs"
        raise PodError(f"run a command in pod {pod.uuid}: not supported for flavour kvm", hint)
    return RuntimeCalls(find_runtime(str(config.get("runtime") or "ociruntime")), pod.uuid)


def _exec_arguments(runtime: RuntimeCalls, pod: Pod, app: str, command: Command) -> list[str]:
    """Return the arguments for ``exec`` of the OCI runtime.

    Raises UsageError for an invalid user, PodError if the user is not found.
    """
    container = runtime.container(app)
    if command.env or command.tty or command.user:
        own = read_object(pod, f"apps/{app}/bundle/config.json") or {}
        process = process_with(own.get("process") or {}, command, _root_of(pod, app))
        return ["--process", _memory_file(process), container]
    options = ["--cwd", command.cwd] if command.cwd else []
    return [*options, container, *command.argv]


def _root_of(pod: Pod, app: str) -> str:
    """Return ``/proc/PID/root``, the path of the root directory of a running app.

    If the app exits, another process may get the PID.  That is harmless: the runtime's ``exec``
    then fails.
    """
    return f"/proc/{app_record(pod, app).get('pid') or 0}/root"


def process_with(own: Mapping[str, Any], command: Command, root: str = "") -> dict[str, Any]:
    """Return the OCI ``process`` object for ``command``, based on ``own``, the app's ``process``.

    The runtime gets this object instead of options of its ``exec``, because runtimes differ in
    these: with --env, runc adds to the app's variables, but crun replaces them.  The user of
    ``command`` is looked up in ``root``, the app's root directory.  Raises UsageError for an
    invalid user, PodError if the user is not found.
    """
    process = {**own, "args": list(command.argv), "terminal": command.tty}
    variables = list(own.get("env") or ())
    if command.user:
        old, new = _accounts(root, own.get("user") or {}, command.user)
        process["user"] = {"uid": new.uid, "gid": new.gid}
        if new.additional:
            process["user"]["additionalGids"] = new.additional
        variables = _for_account(variables, old, new)
    variables += command.env
    process["env"] = with_term(variables) if command.tty else variables
    if command.cwd:
        process["cwd"] = command.cwd
    return process


def _accounts(root: str, own: Mapping[str, Any], user: str) -> tuple[Account, Account]:
    """Return (account of the app's process, account of ``user``), both looked up in ``root``.

    ``own`` is the OCI ``user`` object of the app's process, ``user`` is ``USER[:GROUP]``.  Raises
    UsageError for an invalid ``user``, PodError if it is not found, HostError if it cannot be
    looked up.
    """
    name, colon, group = user.partition(":")
    if not name or (colon and not group) or "/" in user or ":" in group:
        hint = "use USER[:GROUP] with names or numbers"
        raise UsageError(f'--user: invalid user "{user}"', hint)
    try:
        return account(root, str(own.get("uid", 0)), "", []), account(root, name, group, [])
    except OSError as error:
        raise HostError(f'look up user "{user}" in "{root}"', error) from None


# Environment variable -> the attribute of ``Account`` that it holds.
_OF_ACCOUNT = {"HOME": "home", "USER": "name", "LOGNAME": "name", "SHELL": "shell"}


def _for_account(variables: list[str], old: Account, new: Account) -> list[str]:
    """Return ``variables`` with HOME, USER, LOGNAME and SHELL of ``new`` instead of ``old``.

    A variable is changed only if it has the value of ``old``: any other value was set on purpose.
    """
    result = []
    for word in variables:
        name, _, value = word.partition("=")
        member = _OF_ACCOUNT.get(name)
        of_old = bool(member) and value == getattr(old, str(member))
        own = str(getattr(new, str(member))) if of_old else ""
        result.append(f"{name}={own}" if own else word)
    return result


def _memory_file(document: dict[str, Any]) -> str:
    """Write a JSON document to a memory file, which is inherited across execve(2); return its path.

    A temporary file would remain, because this process is replaced by the runtime.
    """
    from ociruntime.base.json_text import dump

    return f"/proc/self/fd/{memory_file('process.json', dump(document).encode(), 0)}"
