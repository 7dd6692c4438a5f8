"""How the manager changes pods: by the program ``ocipod``, by a pod's monitor, by the runtime.

All of it works on pods alone: nothing that is done depends on the manager staying alive.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

from ociruntime.base import json_files as records
from ociruntime.base.errors import BadRequest, HostError, ManagerError, RuntimeFailure
from ociruntime.base.programs import own_launcher
from ociruntime.manager.containers.pod_status import APP
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls, find_runtime
from ociruntime.pods.loop.control_socket import LARGEST, answer_of
from ociruntime.pods.store import control
from ociruntime.pods.store.manifest_file import read_runtime_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from ociruntime.manager.containers.settings import Settings
    from ociruntime.pods.store.pod import Pod

AT_ONCE = 8  # programs that run at a time
FETCHES_AT_ONCE = 8  # besides these: nobody knows how long a registry takes
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Programs:
    """Runs ``ocipod`` with the manager's directories, and runtimes."""

    def __init__(self, settings: Settings) -> None:
        self._command = [*_ocipod(), *_options(settings)]
        self._room = asyncio.Semaphore(AT_ONCE)
        self._room_to_fetch = asyncio.Semaphore(FETCHES_AT_ONCE)
        # The daemon may raise its own: containers are to have what it was started with.
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)

    def command(self, *words: str) -> list[str]:
        """The command line of ``ocipod``."""
        return [*self._command, *words]

    async def ocipod(self, *words: str) -> str:
        """Its standard output.  Raises ManagerError with its error."""
        async with self._room:
            return await self._run(self.command(*words), "ocipod")

    async def fetch(self, *words: str) -> str:
        """As ``ocipod``, in nobody's way but that of others who fetch."""
        async with self._room_to_fetch:
            return await self._run(self.command(*words), "ocipod")

    async def runtime(self, pod: Pod, *words: str) -> str:
        """Of the runtime that has made the pod's container, whose id goes behind the first word.

        At once: what is to be killed or paused does not wait for others.
        Raises ManagerError with its error, PodError.
        """
        program = find_runtime(str(read_runtime_config(pod).get("runtime") or "ociruntime"))
        calls = RuntimeCalls(program, pod.uuid)
        verb, *rest = words
        return await self._run(calls.command("", (verb, calls.container(APP), *rest)), "")

    async def _run(self, command: list[str], name: str) -> str:
        process = await self.started(command)
        out, err = await process.communicate()
        if process.returncode:
            raise ManagerError(message_of(err, name) or f"{command[0]} ended without a word")
        return out.decode(errors="replace")

    async def started(self, command: list[str]) -> asyncio.subprocess.Process:
        """Start a command with nothing to read and pipes to write to.

        Raises BadRequest if a client's word cannot be an argument, HostError.
        """
        if any("\0" in word for word in command):
            raise BadRequest("", "a name must not contain NUL")
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # what a terminal sends is meant for us
                preexec_fn=_child_of(os.getpid(), self._descriptors),
            )
        except OSError as error:
            raise HostError(f"execute {command[0]}", error) from None


def message_of(errors: bytes, name: str) -> str:
    """The last message of a program that puts its name before each.

    A runtime's (``name`` is empty) is one line of its log, in text: the value of ``msg``.
    """
    lines = errors.decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    if name:
        told = [line for line in lines if line.startswith(f"{name}: ")]
        return (told or lines)[-1].removeprefix(f"{name}: ")
    return lines[-1]


async def ask(pod: Pod, request: dict[str, Any]) -> dict[str, Any]:
    """What a running pod's monitor answers.

    Raises PodError with what the monitor says, or if the pod does not run; HostError.
    """
    sock = control.connect(pod)
    try:
        sock.setblocking(False)
        return await ask_over(sock, request)
    except OSError as error:
        raise HostError(f"talk to the monitor of pod {pod.uuid}", error) from None
    finally:
        sock.close()


async def ask_over(sock: socket, request: dict[str, Any]) -> dict[str, Any]:
    """As ``ask``, over a connection that stays and does not block.  Raises OSError, PodError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, records.text_of(request))
    return answer_of(await loop.sock_recv(sock, LARGEST))


async def halt(
    programs: Programs, pod: Pod, *, paused: bool = False, patience: float = 5.0
) -> None:
    """End a pod at once, with all that is in it; back when it has ended.  Raises RuntimeFailure."""
    if pod.refresh() != "running":
        return
    if paused:
        try:
            await programs.runtime(pod, "resume")  # what is frozen does not end
        except RuntimeFailure:
            pass
    try:
        await asyncio.wait_for(ask(pod, {"op": "halt", "force": True, "seconds": 0}), patience)
        deadline = asyncio.get_running_loop().time() + patience
        while asyncio.get_running_loop().time() < deadline:
            if pod.refresh() != "running":
                return
            await asyncio.sleep(0.01)
    except (RuntimeFailure, TimeoutError):
        pass  # it may be just starting, or hang: the program has means for that
    if pod.refresh() == "running":
        await programs.ocipod("stop", "--force", "--wait", pod.uuid)


def _child_of(parent: int, descriptors: tuple[int, int]) -> Callable[[], None]:
    """What is begun for a daemon that is killed ends with it: the next one puts it in order."""
    from ociruntime._shim import lib

    def prepare() -> None:
        lib.oci_prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)

    return prepare


def _package() -> str:
    return os.path.abspath(__file__).rpartition("/manager/")[0]


def _ocipod() -> list[str]:
    """Return what starts ``ocipod``: its launcher, else an interpreter as the daemon's own."""
    if launcher := own_launcher("ocipod"):
        return [launcher]
    words = sys.orig_argv[1:]
    options = words[: words.index(sys.argv[0])] if sys.argv[0] in words else []
    interpreter = [sys.executable, *(options or ("-I", "-S", "-B", "-X", "utf8"))]
    return [*interpreter, f"{_package()}/pods/cli/__main__.py"]


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
