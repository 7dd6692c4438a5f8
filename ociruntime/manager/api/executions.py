"""Further programs in a container, over a WebSocket: ``ocipod app exec`` with pipes or a terminal.

Messages are those of ``attachments.py``.  The client's first one says what to run:

    {"command": [...], "tty": bool, "stdin": bool, "user", "env": ["NAME=VALUE"], "working_dir",
     "size": [rows, columns], "detach": bool}

and ``{"signal": N}`` sends one.  A client that goes closes the program's streams or terminal.
From here ``{"room": BYTES}`` tells how much more input is taken: a client that sends more than all
of them together may have to wait with everything else that it has to say.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from ociruntime.base.errors import BadRequest, Conflict, HostError, RuntimeFailure, StartFailed
from ociruntime.base.terminal import set_window_size
from ociruntime.manager.api.attachments import MESSAGE, control, relay, window_size
from ociruntime.manager.api.bodies import PATIENCE
from ociruntime.manager.api.errors import error_document
from ociruntime.manager.api.program_input import ProgramInput
from ociruntime.manager.api.pumps import pump
from ociruntime.manager.containers.pod_calls import message_of
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE, failure, failure_code

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ociruntime.manager.containers.manager import Manager

FAILED = 125  # exit code for what is neither the program's nor about it
LEFT_OPEN = 0.5  # seconds that output is read when the program has ended and another holds it open
# Member -> what it is; of lists, each element is a string.
MEMBERS: dict[str, type] = {
    "command": list,
    "tty": bool,
    "stdin": bool,
    "user": str,
    "env": list,
    "working_dir": str,
    "size": list,
    "detach": bool,
}


async def execute(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Until the program ends or the client goes.  Raises NotFound, Conflict."""
    ref = request.match_info["ref"]
    status = manager.get(ref)["status"]
    if status != "running":
        raise Conflict(f'container "{ref}": it is {status}', "programs are run in running ones")
    client = web.WebSocketResponse(max_msg_size=MESSAGE)
    await client.prepare(request)
    try:
        wanted = check(await _first(client))
        with RuntimeLog() as log:
            command = manager.ocipod_command(*words_of(wanted, log.path, *manager.pod(ref)[1:]))
            run = _in_background if wanted.get("detach") else _Execution(wanted, log.has).run
            code = await run(client, command)
            log.check(code)
        await client.send_json({"exit_code": code})
    except RuntimeFailure as failure:
        await client.send_json(error_document(failure))
    await client.close()
    return client


async def _first(client: web.WebSocketResponse) -> Any:  # noqa: ANN401 - whatever a client sends
    try:
        return await client.receive_json(timeout=PATIENCE)
    except TimeoutError:
        raise BadRequest("", f"what to run has not come in {PATIENCE:.0f} s") from None
    except (TypeError, ValueError, RecursionError):
        raise BadRequest("", "what to run is no JSON") from None


class RuntimeLog:
    """What a runtime says of itself, apart from what the program writes."""

    def __enter__(self) -> RuntimeLog:
        self._fd = os.memfd_create("log")
        self.path = f"/proc/{os.getpid()}/fd/{self._fd}"
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def has(self, data: bytes) -> bool:
        """Whether that is the error which the runtime has noted here, and prints as well."""
        if not os.fstat(self._fd).st_size:
            return False
        text = failure(self.path, "")
        return bool(text) and text in data.decode(errors="replace")

    def check(self, code: int) -> None:
        """Raises StartFailed if the runtime itself has ended with ``code``."""
        text = failure(self.path, "") if code else ""
        if text:
            own = failure_code(text)
            raise StartFailed(text, FAILED if own == OWN_FAILURE else own)


async def _in_background(client: web.WebSocketResponse, command: list[str]) -> int:
    """Start what goes on without us."""
    del client
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=null, stdout=null, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise HostError(f"execute {command[0]}", error) from None
    _, told = await process.communicate()
    if process.returncode:
        text = message_of(told, "ocipod")
        raise StartFailed(text, failure_code(text))
    return 0


def check(wanted: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a client sends
    """What the client wants to run.  Raises BadRequest."""
    if not isinstance(wanted, dict):
        raise BadRequest("", "what to run is no object")
    for name, value in wanted.items():
        kind = MEMBERS.get(name)
        if kind is None:
            raise BadRequest(name, "is unknown", ", ".join(MEMBERS))
        if not isinstance(value, kind):
            raise BadRequest(name, f"is no {kind.__name__}")
    for name in ("command", "env"):
        for word in wanted.get(name, ()):
            if not isinstance(word, str) or not _is_word(word):
                raise BadRequest(name, "each element is a string without NUL, of real characters")
    for name in ("user", "working_dir"):
        if not _is_word(wanted.get(name, "")):
            raise BadRequest(name, "it is a string without NUL, of real characters")
    if wanted.get("tty") and wanted.get("detach"):
        raise BadRequest("tty", "a program in the background has no terminal")
    if not wanted.get("command"):
        raise BadRequest("command", "it is empty")
    for word in wanted.get("env", ()):
        if not word.partition("=")[0] or "=" not in word:
            raise BadRequest("env", f'"{word}" is not NAME=VALUE')
    return wanted


def _is_word(text: str) -> bool:
    """Whether a command line can have it; bytes that are no UTF-8 come as Python shows them."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def words_of(wanted: dict[str, Any], log: str, uuid: str, app: str) -> list[str]:
    """The words of ``ocipod`` that run it."""
    words = ["app", "exec", f"--app={app}", f"--log={log}"]
    words += [f"--{name}" for name in ("tty", "detach") if wanted.get(name)]
    words += [f"--env={word}" for word in wanted.get("env", ())]
    for member, option in (("user", "--user"), ("working_dir", "--cwd")):
        if wanted.get(member):
            words.append(f"{option}={wanted[member]}")
    return [*words, uuid, "--", *wanted["command"]]


class _Execution:
    """One program; ``run`` is its whole life.

    What ``is_known`` of its output is told to the client in another way.
    """

    def __init__(
        self, wanted: dict[str, Any], is_known: Callable[[bytes], bool] = lambda _: False
    ) -> None:
        self._wanted = wanted
        self._is_known = is_known
        self._terminal = -1  # ours, of the program's
        self._input = ProgramInput(-1, owned=False)
        self._outputs: dict[int, bytes] = {}  # we read what it writes -> number of the stream
        self._process: asyncio.subprocess.Process | None = None
        self._refused: BadRequest | None = None

    async def run(self, client: web.WebSocketResponse, command: list[str]) -> int:
        """Start it and pass on what it reads and writes; its exit code.  Raises HostError."""
        try:
            await self._start(command)
            await relay(self._to_client(client), self._from_client(client))
        finally:
            self._close()
            if self._process is not None and self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGHUP)
        if self._refused is not None:
            raise self._refused
        code = self._process.returncode if self._process is not None else None
        return 0 if code is None else code if code >= 0 else 128 - code

    async def _start(self, command: list[str]) -> None:
        given: list[int] = []
        try:
            if self._wanted.get("tty"):
                self._open_terminal(given)
            else:
                self._open_pipes(given)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=given[0],
                stdout=given[1],
                stderr=given[2],
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"execute {command[0]}", error) from None
        finally:
            for fd in set(given):
                os.close(fd)

    def _open_terminal(self, given: list[int]) -> None:
        """``given`` gets what is the program's."""
        master, slave = os.openpty()
        given += [slave] * 3
        self._outputs = {master: b"\1"}
        os.set_blocking(master, False)
        self._terminal = master
        self._input = ProgramInput(master, owned=False)
        size = window_size({"resize": self._wanted.get("size")})
        if size:
            set_window_size(master, *size)

    def _open_pipes(self, given: list[int]) -> None:
        if self._wanted.get("stdin"):
            stdin, ours = os.pipe()
            self._input = ProgramInput(ours, owned=True)
            os.set_blocking(ours, False)
        else:
            stdin = os.open("/dev/null", os.O_RDONLY)
        given.append(stdin)
        for number in (b"\1", b"\2"):
            reader, writer = os.pipe()
            given.append(writer)
            self._outputs[reader] = number
            os.set_blocking(reader, False)

    async def _to_client(self, client: web.WebSocketResponse) -> None:
        assert self._process is not None
        loop = asyncio.get_running_loop()
        deadline: asyncio.Future[float] = loop.create_future()
        pumps: list[Coroutine[Any, Any, None]] = [
            pump(fd, number, client, deadline, self._is_known)
            for fd, number in self._outputs.items()
        ]
        pumping = asyncio.gather(*pumps)
        try:
            await self._process.wait()
            deadline.set_result(loop.time() + LEFT_OPEN)
            await pumping
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)

    async def _from_client(self, client: web.WebSocketResponse) -> None:
        # Beside it: what the program does not read holds up no signal.
        passing = asyncio.ensure_future(self._input.run(client))
        try:
            async for message in client:
                if message.type == WSMsgType.BINARY and message.data[:1] == b"\0":
                    await self._input.put(message.data[1:])
                elif message.type == WSMsgType.TEXT:
                    self._control(control(message.data))
        except BadRequest as refused:
            self._refused = refused
        finally:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)

    def _control(self, words: dict[str, Any]) -> None:
        assert self._process is not None
        if words.get("close") == "stdin":
            self._input.end()
        elif self._process.returncode is not None:
            return
        elif (size := window_size(words)) and self._wanted.get("tty"):
            set_window_size(self._terminal, *size)
            # The runtime has no controlling terminal from which it would come.
            self._process.send_signal(signal.SIGWINCH)
        elif "signal" in words:
            self._process.send_signal(_signal_of(words["signal"]))

    def _close(self) -> None:
        self._input.close()
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()


def _signal_of(number: Any) -> int:  # noqa: ANN401 - whatever a client sends
    """Raises BadRequest."""
    if type(number) is not int or not 0 < number < signal.NSIG:
        raise BadRequest("signal", "it is no number of a signal", f"1 to {signal.NSIG - 1}")
    if number in (signal.SIGKILL, signal.SIGSTOP):
        # The runtime, which hands on all others, would get these itself.
        raise BadRequest("signal", "KILL and STOP do not reach the program", "TERM, or INT")
    return number
