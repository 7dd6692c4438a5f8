"""Stream the output of ``ocipod``, such as an archive, as the answer to an API request."""

from __future__ import annotations

import asyncio

from aiohttp import web

from ociruntime.base.errors import ManagerError
from ociruntime.manager.containers.pod_calls import Programs, classified, end, message_of

_PIECE = 1 << 16  # bytes
_LONGEST_ERROR = 1 << 16


async def send_output(
    request: web.Request,
    programs: Programs,
    args: tuple[str, ...],
    content_type: str = "application/x-tar",
    timeout: float | None = None,
) -> web.StreamResponse:
    """Run ``ocipod`` with ``args`` and send its standard output as the answer's body.

    If ``ocipod`` fails before its first byte of output, the client gets an error answer.  If
    ``ocipod`` fails later, or the client reads nothing for ``timeout`` seconds, the connection is
    aborted, which tells the client that the output is incomplete.  If ``timeout`` is None, there is
    no limit.  Raises ManagerError if ``ocipod`` fails or the timeout passes, HostError if
    ``ocipod`` cannot be executed.
    """
    process = await programs.spawn_ocipod(*args)
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read(_LONGEST_ERROR))
    try:
        piece = await process.stdout.read(_PIECE)
        if not piece and await process.wait():
            failed = f"run ocipod {args[0]}: it failed without an error message"
            raise classified(message_of(await errors, "ocipod") or failed)
        answer = web.StreamResponse()
        answer.content_type = content_type
        await answer.prepare(request)
        while piece:
            await _write(request, answer, piece, timeout)
            piece = await process.stdout.read(_PIECE)
        if await process.wait():
            _cut(request)
            raise ManagerError(message_of(await errors, "ocipod"))
        await answer.write_eof()
        return answer
    finally:
        errors.cancel()
        await end(process)


async def _write(
    request: web.Request, answer: web.StreamResponse, piece: bytes, timeout: float | None
) -> None:
    try:
        async with asyncio.timeout(timeout):
            await answer.write(piece)
    except TimeoutError:
        _cut(request)
        raise ManagerError(f"send output to a client: timeout after {timeout:g} seconds") from None


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
