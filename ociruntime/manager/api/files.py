"""The routes of a container's files, as tar archives, and of what it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import StreamReader, web

from ociruntime.base.errors import BadRequest, ManagerError, NotFound
from ociruntime.manager.api.output import send_output
from ociruntime.manager.api.requests import flag
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_calls import classified, end, message_of
from ociruntime.manager.containers.pod_status import ACTIVE, APP

_PIECE = 1 << 16  # bytes
# Seconds that a client may neither send nor read: a stopped container is locked meanwhile.
TIMEOUT = 60.0


@asynccontextmanager
async def _files(
    manager: Manager, request: web.Request, command: str
) -> AsyncIterator[tuple[str, ...]]:
    """Return the words of the ``ocipod`` command for the files of the request's container.

    A stopped container cannot be started meanwhile: its files would be mounted twice.
    """
    container = manager.find(request.match_info["ref"])
    path = request.query.get("path", "")
    if not path or "\0" in path:
        raise BadRequest("path", "required: a path in the container")
    follow = ["--follow-link"] if flag(request.query, "follow") else []

    def words(state: str) -> tuple[str, ...]:
        options = (f"--app={APP}", f"--only={state}", *follow)
        return ("app", command, *options, "--", container.location[1], path)

    if container.inspect()["status"] not in ACTIVE:
        async with container.lock:
            if container.inspect()["status"] not in ACTIVE:  # it may have been started meanwhile
                yield words("stopped")
                return
    yield words("running")


async def facts(manager: Manager, request: web.Request) -> web.Response:
    """Return name, kind and size of the file ``path``; ``follow``: of what a link refers to."""
    async with _files(manager, request, "copy-out") as words:
        command, verb, *rest = words
        try:
            out = await manager.programs.call(command, verb, "--stat", *rest)
        except ManagerError as failure:
            if failure.message.endswith("no such file or directory"):
                raise NotFound(failure.message) from None
            raise
    return web.Response(text=out, content_type="application/json")


async def read(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send the file or directory ``path`` as a tar archive."""
    async with _files(manager, request, "copy-out") as words:
        return await send_output(request, manager.programs, words, timeout=TIMEOUT)


async def write(manager: Manager, request: web.Request) -> web.Response:
    """Unpack the body, a tar archive, into the directory ``path``; ``name`` renames its top."""
    async with _files(manager, request, "copy-in") as words:
        command, verb, *rest = words
        options = [f"--name={name}"] if (name := request.query.get("name", "")) else []
        await _unpack(manager, request, [command, verb, *options, *rest])
    return web.Response(status=204)


async def _unpack(manager: Manager, request: web.Request, words: list[str]) -> None:
    process = await manager.programs.spawn_ocipod(*words, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # its error says why
            async for piece in pieces(request.content, TIMEOUT):
                process.stdin.write(piece)
                await process.stdin.drain()
        process.stdin.close()
        if await process.wait():
            failed = "run ocipod app copy-in: it failed without an error message"
            raise classified(message_of(await errors, "ocipod") or failed)
    finally:
        errors.cancel()
        await end(process)


async def pieces(content: StreamReader, timeout: float) -> AsyncIterator[bytes]:
    """Yield a request's body.  Raises HTTPRequestTimeout after ``timeout`` seconds of silence."""
    while True:
        try:
            async with asyncio.timeout(timeout):
                piece = await content.read(_PIECE)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        if not piece:
            return
        yield piece


async def changes(manager: Manager, request: web.Request) -> web.StreamResponse:
    """List the files that the container has added (A), changed (C) or deleted (D): JSON lines."""
    _, uuid, app = manager.find(request.match_info["ref"]).location
    words = ("app", "diff", f"--app={app}", "--format=json", uuid)
    return await send_output(request, manager.programs, words, "application/x-ndjson")


_ONE = "/v1/containers/{ref}"
ROUTES = (
    ("GET", f"{_ONE}/file", facts),
    ("GET", f"{_ONE}/archive", read),
    ("PUT", f"{_ONE}/archive", write),
    ("GET", f"{_ONE}/changes", changes),
)
