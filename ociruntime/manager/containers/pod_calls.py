"""Control pods: run ``ocipod``, send requests to a pod's monitor, run the OCI runtime.

If the daemon dies, the kernel kills the commands that the daemon is running.  Monitors that these
commands have started keep running.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from socket import socket
from typing import IO, Any

from ociruntime.base import json_files
from ociruntime.base.errors import (
    BadRequest,
    Conflict,
    HostError,
    ManagerError,
    NotFound,
    RuntimeFailure,
)
from ociruntime.base.host_programs import own_launcher
from ociruntime.base.process import die_with
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls, find_runtime
from ociruntime.pods.loop.control_socket import LARGEST, answer_of
from ociruntime.pods.manifest.request import BaseRequest, document_of
from ociruntime.pods.store import control_client
from ociruntime.pods.store.manifest_file import read_runtime_config
from ociruntime.pods.store.pod import Pod

AT_ONCE = 8  # the maximum number of ocipod commands that run at a time
FETCHES_AT_ONCE = (
    8  # the separate maximum for fetches, so that a slow registry does not block other requests
)
NOT_STORED = "is not in the store"
HAS_NAME = ": it has a name: "
# ocipod has one exit status for all failures: only its message distinguishes them.
_MEANING: tuple[tuple[str, type[ManagerError]], ...] = (
    (NOT_STORED, NotFound),
    ("is used by a pod", Conflict),
    (HAS_NAME, Conflict),
)


class Programs:
    """Run ``ocipod``, with the manager's directories as options, and run OCI runtimes."""

    def __init__(self, settings: Settings) -> None:
        self._command = [*_ocipod(), *_options(settings)]
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._fetch_slots = asyncio.Semaphore(FETCHES_AT_ONCE)
        # The daemon may raise its own limit; containers get the limit it was started with.
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)

    def command(self, *args: str) -> list[str]:
        """Return the argv that runs ``ocipod`` with the manager's options, then ``args``."""
        return [*self._command, *args]

    async def ocipod(self, *args: str, request: BaseRequest | None = None) -> str:
        """Run ``ocipod`` and return its standard output.

        If ``args`` contains ``--request``, ``ocipod`` gets ``request`` as JSON on standard input.
        Raises ManagerError with the error message of ``ocipod``, HostError if ``ocipod`` cannot be
        executed.
        """
        return await self._queued(args, _content_of(request))

    async def _queued(self, args: tuple[str, ...], content: bytes) -> str:
        async with self._slots:
            return await _run(self._tied_command(*args), "ocipod", content)

    async def fetch(self, *args: str) -> str:
        """Run ``ocipod`` in the separate queue for fetches; return its standard output.

        Raises ManagerError with the error message of ``ocipod``, HostError if it cannot be
        executed.
        """
        async with self._fetch_slots:
            return await _run(self._tied_command(*args), "ocipod")

    async def call(self, *args: str, content: bytes = b"") -> str:
        """Run ``ocipod`` with ``content`` as its standard input; return its standard output.

        Raises NotFound, Conflict or ManagerError for an error of ``ocipod``, as ``classified``
        decides.  Raises HostError if ``ocipod`` cannot be executed.
        """
        try:
            return await self._queued(args, content)
        except BadRequest:
            raise
        except ManagerError as failure:
            raise classified(str(failure)) from None

    async def fetch_with_progress(self, *args: str) -> AsyncIterator[dict[str, Any]]:
        """Run ``ocipod fetch``; yield ``{"progress", "done", "total"}`` objects, then ``{"id"}``.

        Raises NotFound, Conflict or ManagerError with the error message of ``ocipod``, HostError if
        it cannot be executed.
        """
        process = await self.spawn_ocipod(*args)
        assert process.stdout is not None
        assert process.stderr is not None
        out = asyncio.ensure_future(process.stdout.read())
        errors = b""
        try:
            async for line in process.stderr:
                if line.startswith(b"{"):
                    yield json.loads(line)
                else:
                    errors += line
            status = await process.wait()
            ids = (await out).decode(errors="replace").split()
        except ValueError:
            message = "read the progress of ocipod fetch: a line is too long or invalid JSON"
            raise ManagerError(message) from None
        finally:
            out.cancel()
            await end(process)
        if status or not ids:
            silent = "run ocipod: it failed without an error message"
            raise classified(message_of(errors, "ocipod") or silent)
        yield {"id": ids[-1]}

    async def runtime(self, pod: Pod, *args: str, content: bytes = b"") -> str:
        """Run a command of the OCI runtime that created the pod's container; return its output.

        ``args`` are the command's name and the arguments that follow the container id.  ``content``
        is the command's standard input.  The command is never queued: kill and pause must not wait
        for other requests.  Raises ManagerError with the runtime's error message, PodError if the
        pod's files are damaged.
        """
        program = find_runtime(str(read_runtime_config(pod).get("runtime") or "ociruntime"))
        calls = RuntimeCalls(program, pod.uuid)
        verb, *rest = args
        command = calls.command("", (verb, calls.container(APP), *rest))
        return await _run(command, "", content, _child_of(os.getpid(), self._descriptors))

    async def spawn_ocipod(
        self, *args: str, stdin: int | None = None
    ) -> asyncio.subprocess.Process:
        """Start ``ocipod`` with pipes for stdout and stderr; return the process.

        ``stdin`` is as for ``asyncio.create_subprocess_exec``; None means /dev/null.

        Raises BadRequest if an argument from the client contains NUL, HostError if ``ocipod``
        cannot be executed.
        """
        return await _spawn(self._tied_command(*args), stdin=stdin)

    def _tied_command(self, *args: str) -> list[str]:
        """Return the argv of an ``ocipod`` that is killed when the daemon dies.

        The option ``--die-with-parent`` makes ``ocipod`` arrange this itself.  With a
        ``preexec_fn``, as ``_child_of`` returns, Python would use fork(2) instead of vfork(2):
        copying the daemon's page tables takes 3 ms for each command.
        """
        soft, hard = self._descriptors
        return self.command(f"--die-with-parent={os.getpid()}", f"--nofile={soft}:{hard}", *args)


async def _run(
    command: list[str],
    name: str,
    content: bytes = b"",
    preexec_fn: Callable[[], None] | None = None,
) -> str:
    """Run a program with ``content`` as its standard input; return its standard output.

    ``name`` is the prefix of the program's error messages, see ``message_of``.  Raises ManagerError
    with the program's error message, HostError if the program cannot be executed.
    """
    process = await _spawn(command, content, preexec_fn=preexec_fn)
    out, err = await process.communicate()
    if status := process.returncode:
        message = f'run "{command[0]}": it failed with status {status} and no error message'
        raise ManagerError(message_of(err, name) or message)
    return out.decode(errors="replace")


async def _spawn(
    command: list[str],
    content: bytes = b"",
    *,
    stdin: int | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> asyncio.subprocess.Process:
    if any("\0" in arg for arg in command):
        raise BadRequest("", f'run "{command[0]}": an argument must not contain NUL')
    try:
        with _standard_input(content) as file:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=file if stdin is None else stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # ^C at a terminal must reach only the daemon
                preexec_fn=preexec_fn,
            )
    except OSError as error:
        raise HostError(f'execute "{command[0]}"', error) from None


def _content_of(request: BaseRequest | None) -> bytes:
    """Return ``request`` as the JSON that ``ocipod --request`` reads; b"" if it is None."""
    return b"" if request is None else json_files.text_of(document_of(request))


def _standard_input(content: bytes) -> IO[bytes]:
    """Return an open file with ``content``, to be a program's stdin; /dev/null if it is b"".

    The file is a memfd.  Unlike writing to a pipe, writing to a memfd never blocks.  Unlike
    arguments, its content is not visible to other users, and its size is not limited.  Raises
    OSError if the file cannot be created.
    """
    if not content:
        return open(os.devnull, "rb")
    file = open(os.memfd_create("input"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def classified(text: str) -> ManagerError:
    """Return the exception for ``text``, an error message of ``ocipod``.

    Returns NotFound if an image is not in the store.  Returns Conflict if an image cannot be
    removed because it is in use or has a name.  Returns ManagerError for other errors.
    """
    kind = next((kind for part, kind in _MEANING if part in text), ManagerError)
    return kind(text)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a program, if it is still running, and wait for its exit."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def message_of(errors: bytes, name: str) -> str:
    """Return the last error message in ``errors``, a program's stderr; "" if ``errors`` is blank.

    ``name`` is the prefix of the program's messages.  If no line has the prefix, or if ``name`` is
    "", as for OCI runtimes, returns the last line.
    """
    lines = errors.decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    if name:
        messages = [line for line in lines if line.startswith(f"{name}: ")]
        return (messages or lines)[-1].removeprefix(f"{name}: ")
    return lines[-1]


async def ask(pod: Pod, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a pod's monitor and return its answer.

    Raises PodError if the pod is not running or the monitor answers with an error, HostError if the
    connection fails.
    """
    sock = control_client.connect(pod)
    try:
        sock.setblocking(False)
        return await ask_over(sock, request)
    except OSError as error:
        raise HostError(f"send a request to the monitor of pod {pod.uuid}", error) from None
    finally:
        sock.close()


async def ask_over(sock: socket, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request over a non-blocking connection to a monitor; return the monitor's answer.

    Raises PodError if the monitor answers with an error, OSError if the connection fails.
    """
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, json_files.text_of(request))
    return answer_of(await loop.sock_recv(sock, LARGEST))


async def halt(programs: Programs, pod: Pod, *, paused: bool = False, timeout: float = 5.0) -> None:
    """Kill a pod with all its apps and wait for the pod's exit.

    If ``paused``, resumes the pod's container first: on cgroup v1, a frozen process cannot die.
    Waits up to ``timeout`` seconds for the monitor's answer, then up to ``timeout`` seconds for the
    pod's exit.  If the pod is then still running, runs ``ocipod stop --force``.  Raises
    RuntimeFailure if that command fails.
    """
    if pod.refresh() != "running":
        return
    if paused:
        with suppress(RuntimeFailure):
            await programs.runtime(
                pod, "resume"
            )  # on cgroup v1, a frozen process dies only when it is thawed
    try:
        await asyncio.wait_for(ask(pod, {"op": "halt", "force": True, "seconds": 0}), timeout)
        deadline = asyncio.get_running_loop().time() + timeout
        while asyncio.get_running_loop().time() < deadline:
            if pod.refresh() != "running":
                return
            await asyncio.sleep(0.01)
    except (RuntimeFailure, TimeoutError):
        pass  # the monitor may be starting or may hang: `ocipod stop` handles both
    if pod.refresh() == "running":
        await programs.ocipod("stop", "--force", "--wait", pod.uuid)


def _child_of(parent: int, descriptors: tuple[int, int]) -> Callable[[], None]:
    """Return a ``preexec_fn`` that makes the kernel kill the child when ``parent`` dies.

    The ``preexec_fn`` also sets RLIMIT_NOFILE to ``descriptors``, (soft limit, hard limit).  A
    command that survived a killed daemon would race with the cleanup of the next daemon.
    """

    def prepare() -> None:
        die_with(parent)
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)

    return prepare


def _ocipod() -> list[str]:
    """Return the argv of ``ocipod``: its launcher, or the daemon's own interpreter and options."""
    if launcher := own_launcher("ocipod"):
        return [launcher]
    args = sys.orig_argv[1:]
    options = args[: args.index(sys.argv[0])] if sys.argv[0] in args else []
    interpreter = [sys.executable, *(options or ("-I", "-S", "-B", "-X", "utf8"))]
    package = os.path.abspath(__file__).rpartition("/manager/")[0]
    return [*interpreter, f"{package}/pods/cli/__main__.py"]


def _options(settings: Settings) -> list[str]:
    options = [f"--dir={settings.directory}"]
    for name, value in (
        ("runtime", settings.runtime),
        ("system-config", settings.system_config),
        ("local-config", settings.local_config),
    ):
        if value:
            options.append(f"--{name}={value}")
    if settings.debug:
        options.append("--debug")
    return options
