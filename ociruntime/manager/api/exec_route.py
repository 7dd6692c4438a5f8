"""The API's exec route: run ``ocipod app exec`` and relay its streams over a WebSocket.

``attach.py`` describes the messages.  Here, the client's first message is the request:

    {"command": [...], "tty": bool, "stdin": bool, "user", "env": ["NAME=VALUE"], "working_dir",
     "size": [rows, columns], "detach": bool}

Later, the client may send ``{"signal": N}`` to send a signal to the program.  When the client
disconnects, the program's streams or terminal are closed.  The daemon sends ``{"room": BYTES}`` to
allow further input (flow control).  A client that sends more input than allowed delays its own
control messages.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, Conflict, HostError, RuntimeFailure, StartFailed
from ociruntime.base.terminal import set_window_size
from ociruntime.manager.api.attach import MESSAGE, control, relay, window_size
from ociruntime.manager.api.error_answers import error_document
from ociruntime.manager.api.exec_streams import ProgramInput, pump
from ociruntime.manager.api.parse_requests import BODY_TIMEOUT
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_calls import message_of
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE, failure, failure_code

FAILED = 126  # exit code if the runtime itself fails before it executes the program, as in docker
DRAIN_TIMEOUT = 0.5  # seconds to read output after the exit if another process holds it open


async def execute(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Run a program in a container until it exits or the client disconnects.

    Raises NotFound if there is no such container, Conflict if it is not running.  Later errors are
    sent over the WebSocket.
    """
    ref = request.match_info["ref"]
    container = manager.find(ref)
    status = container.inspect()["status"]
    if status != "running":
        raise Conflict(f'container "{ref}" is not running: its status is "{status}"')
    client = web.WebSocketResponse(max_msg_size=MESSAGE)
    await client.prepare(request)
    try:
        spec = check(await _first(client))
        with RuntimeLog() as log:
            command = manager.programs.command(*exec_args(spec, log.path, *container.location[1:]))
            run = _in_background if spec.get("detach") else _Execution(spec, log.has).run
            code = await run(client, command)
            log.check(code)
        await client.send_json({"exit_code": code})
    except RuntimeFailure as failure:
        await client.send_json(error_document(failure))
    await client.close()
    return client


async def _first(client: web.WebSocketResponse) -> Any:  # noqa: ANN401 - whatever a client sends
    try:
        return await client.receive_json(timeout=BODY_TIMEOUT)
    except TimeoutError:
        message = f"receive the exec request: timeout after {BODY_TIMEOUT:.0f} seconds"
        raise BadRequest("", message) from None
    except (TypeError, ValueError, RecursionError):
        raise BadRequest("", "receive the exec request: invalid JSON") from None


class RuntimeLog:
    """The log file of the OCI runtime, a memfd.

    The runtime and the program share standard error.  The runtime also logs its own error
    messages, so the log shows which output is the runtime's.
    """

    def __enter__(self) -> RuntimeLog:
        self._fd = os.memfd_create("log")
        self.path = f"/proc/{os.getpid()}/fd/{self._fd}"
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def has(self, data: bytes) -> bool:
        """Return whether the output ``data`` contains the error that the runtime has logged."""
        if not os.fstat(self._fd).st_size:
            return False
        text = failure(self.path, "")
        return bool(text) and text in data.decode(errors="replace")

    def check(self, code: int) -> None:
        """Raise StartFailed if the exit code ``code`` is the runtime's own, not the program's.

        The code is the runtime's if it is not 0 and the runtime has logged an error.
        """
        text = failure(self.path, "") if code else ""
        if text:
            raise _not_started(text)


def _not_started(text: str) -> StartFailed:
    exit_code = failure_code(text)
    return StartFailed(text, FAILED if exit_code == OWN_FAILURE else exit_code)


async def _in_background(client: web.WebSocketResponse, command: list[str]) -> int:
    """Run ``command``, an ``ocipod app exec --detach`` command line; return 0.

    Raises StartFailed if ``ocipod`` cannot start the program in the container, HostError if
    ``ocipod`` cannot be executed.
    """
    del client
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=null, stdout=null, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise HostError(f'execute "{command[0]}"', error) from None
    _, err = await process.communicate()
    if process.returncode:
        raise _not_started(message_of(err, "ocipod"))
    return 0


def _argument(where: str, value: object) -> None:
    """Raise BadRequest if ``value`` is not a string that can be an argument of a program.

    Lone surrogates from U+DC80 to U+DCFF are permitted: they stand for bytes that are not UTF-8
    (PEP 383).
    """
    try:
        if isinstance(value, str) and b"\0" not in os.fsencode(value):
            return
    except UnicodeEncodeError:
        pass
    raise BadRequest(where, "must be a Unicode string without NUL")


def _variable(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    _argument(where, value)
    if not value.partition("=")[0] or "=" not in value:
        raise BadRequest(where, f'the variable "{value}" must have the form NAME=VALUE')


MEMBERS: checks.Members = {
    "command": checks.list_of(_argument),
    "tty": checks.flag,
    "stdin": checks.flag,
    "user": _argument,
    "env": checks.list_of(_variable),
    "working_dir": _argument,
    "size": checks.list_of(checks.number(0, 65535)),
    "detach": checks.flag,
}


def check(spec: object) -> dict[str, Any]:
    """Validate a client's exec request and return it.  Raises BadRequest if it is invalid."""
    given = checks.check_object(spec, MEMBERS, "the exec request")
    if given.get("tty") and given.get("detach"):
        raise BadRequest("tty", "cannot be combined with detach")
    if not given.get("command"):
        raise BadRequest("command", "is required and must not be empty")
    return given


def exec_args(spec: dict[str, Any], log: str, uuid: str, app: str) -> list[str]:
    """Return the ``ocipod app exec`` arguments for ``spec``, a valid exec request.

    ``log`` is the path of the OCI runtime's log file.
    """
    args = ["app", "exec", f"--app={app}", f"--log={log}"]
    args += [f"--{name}" for name in ("tty", "detach") if spec.get(name)]
    args += [f"--env={word}" for word in spec.get("env", ())]
    for member, option in (("user", "--user"), ("working_dir", "--cwd")):
        if spec.get(member):
            args.append(f"{option}={spec[member]}")
    return [*args, uuid, "--", *spec["command"]]


class _Execution:
    """A program that ``exec`` runs in a container; its streams are relayed to one client.

    If ``is_known(data)`` is True, output ``data`` is dropped: it is an error message of the OCI
    runtime, and the client gets this message as JSON instead.
    """

    def __init__(
        self, spec: dict[str, Any], is_known: Callable[[bytes], bool] = lambda _: False
    ) -> None:
        self._spec = spec
        self._is_known = is_known
        self._terminal = -1  # the master side of the program's pseudo-terminal
        self._input = ProgramInput(-1, owned=False)
        self._outputs: dict[int, bytes] = {}  # read end of an output -> the stream's byte
        self._process: asyncio.subprocess.Process | None = None
        self._refused: BadRequest | None = None

    async def run(self, client: web.WebSocketResponse, command: list[str]) -> int:
        """Execute ``command``, relay its streams, and return its exit code.

        Returns 128 plus the signal's number if a signal killed ``command``, 0 if the client
        disconnects first.  Raises HostError if ``command`` cannot be executed, BadRequest for an
        invalid message from the client.
        """
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
        streams: list[int] = []
        try:
            if self._spec.get("tty"):
                self._open_terminal(streams)
            else:
                self._open_pipes(streams)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f'execute "{command[0]}"', error) from None
        finally:
            for fd in set(streams):
                os.close(fd)

    def _open_terminal(self, streams: list[int]) -> None:
        """Open a pseudo-terminal; append its slave side to ``streams`` as stdin, stdout, stderr."""
        master, slave = os.openpty()
        streams += [slave] * 3
        self._outputs = {master: b"\1"}
        os.set_blocking(master, False)
        self._terminal = master
        self._input = ProgramInput(master, owned=False)
        size = window_size({"resize": self._spec.get("size")})
        if size:
            set_window_size(master, *size)

    def _open_pipes(self, streams: list[int]) -> None:
        if self._spec.get("stdin"):
            stdin, ours = os.pipe()
            self._input = ProgramInput(ours, owned=True)
            os.set_blocking(ours, False)
        else:
            stdin = os.open("/dev/null", os.O_RDONLY)
        streams.append(stdin)
        for number in (b"\1", b"\2"):
            reader, writer = os.pipe()
            streams.append(writer)
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
            deadline.set_result(loop.time() + DRAIN_TIMEOUT)
            await pumping
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)

    async def _from_client(self, client: web.WebSocketResponse) -> None:
        # In a separate task: a program that does not read its input must not delay signals.
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

    def _control(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        if message.get("close") == "stdin":
            self._input.end()
        elif self._process.returncode is not None:
            return
        elif (size := window_size(message)) and self._spec.get("tty"):
            set_window_size(self._terminal, *size)
            # The kernel sends no SIGWINCH, because the terminal is not the runtime's controlling
            # terminal.
            self._process.send_signal(signal.SIGWINCH)
        elif "signal" in message:
            self._process.send_signal(_signal_of(message["signal"]))

    def _close(self) -> None:
        self._input.close()
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()


def _signal_of(number: Any) -> int:  # noqa: ANN401 - whatever a client sends
    """Return ``number`` if it is a signal that the runtime can forward to the program.

    Raises BadRequest otherwise.
    """
    if type(number) is not int or not 0 < number < signal.NSIG:
        raise BadRequest("signal", "must be a signal number", f"1 to {signal.NSIG - 1}")
    if number in (signal.SIGKILL, signal.SIGSTOP):
        # The runtime forwards the signals that it catches; SIGKILL and SIGSTOP cannot be caught.
        hint = "use TERM or INT"
        raise BadRequest("signal", "KILL and STOP cannot be forwarded to the program", hint)
    return number
