"""The API's routes for a container's files: read and write archives, list changed files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import StreamReader, web

from ociruntime.base.errors import BadRequest, ManagerError, NotFound
from ociruntime.manager.api.parse_requests import flag
from ociruntime.manager.api.stream_output import send_output
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_calls import classified, end, message_of
from ociruntime.manager.containers.pod_status import ACTIVE, APP

_PIECE = 1 << 16  # bytes
# Seconds until a stalled transfer is aborted, because it keeps a stopped container locked.
TIMEOUT = 60.0


@asynccontextmanager
async def _files(
    manager: Manager, request: web.Request, command: str
) -> AsyncIterator[tuple[str, ...]]:
    """Context manager: yield the arguments for ``ocipod app COMMAND`` on the request's container.

    The query must have ``path``, the path of a file in the container.  With ``follow=1``,
    ``ocipod`` follows a symbolic link.  Until the context ends, a stopped container cannot be
    started, because its files would be mounted twice.  Raises NotFound if there is no such
    container, BadRequest for an invalid query.
    """
    container = manager.find(request.match_info["ref"])
    path = request.query.get("path", "")
    if not path or "\0" in path:
        raise BadRequest("path", "must be a path in the container, without NUL")
    follow = ["--follow-link"] if flag(request.query, "follow") else []

    def arguments(state: str) -> tuple[str, ...]:
        options = (f"--app={APP}", f"--only={state}", *follow)
        return ("app", command, *options, "--", container.location[1], path)

    if container.inspect()["status"] not in ACTIVE:
        async with container.lock:
            if container.inspect()["status"] not in ACTIVE:  # it may have been started meanwhile
                yield arguments("stopped")
                return
    yield arguments("running")


async def file_status(manager: Manager, request: web.Request) -> web.Response:
    """Return the name, kind and size of the file ``path`` in a container, as JSON.

    With ``follow``, follows a symbolic link.  Raises NotFound if the container or the file does not
    exist.
    """
    async with _files(manager, request, "copy-out") as arguments:
        command, verb, *options = arguments
        try:
            out = await manager.programs.call(command, verb, "--stat", *options)
        except ManagerError as failure:
            if failure.message.endswith("no such file or directory"):
                raise NotFound(failure.message) from None
            raise
    return web.Response(text=out, content_type="application/json")


async def read(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send the file or directory ``path`` in a container as a tar archive."""
    async with _files(manager, request, "copy-out") as arguments:
        return await send_output(request, manager.programs, arguments, timeout=TIMEOUT)


async def write(manager: Manager, request: web.Request) -> web.Response:
    """Unpack the request's body, a tar archive, into the directory ``path`` in a container.

    The query parameter ``name`` renames the archive's top file or directory.
    """
    async with _files(manager, request, "copy-in") as arguments:
        command, verb, *rest = arguments
        options = [f"--name={name}"] if (name := request.query.get("name", "")) else []
        await _unpack(manager, request, [command, verb, *options, *rest])
    return web.Response(status=204)


async def _unpack(manager: Manager, request: web.Request, args: list[str]) -> None:
    process = await manager.programs.spawn_ocipod(*args, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    try:
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # ocipod has exited early: report its error message below
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
    """Yield a request's body in pieces of at most 64 KiB.

    Raises HTTPRequestTimeout if the client sends nothing for ``timeout`` seconds.
    """
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
    """List the files that a container has added (A), changed (C) or deleted (D), as JSON lines."""
    _, uuid, app = manager.find(request.match_info["ref"]).location
    args = ("app", "diff", f"--app={app}", "--format=json", uuid)
    return await send_output(request, manager.programs, args, "application/x-ndjson")


_ONE = "/v1/containers/{ref}"
ROUTES = (
    ("GET", f"{_ONE}/file", file_status),
    ("GET", f"{_ONE}/archive", read),
    ("PUT", f"{_ONE}/archive", write),
    ("GET", f"{_ONE}/changes", changes),
)
