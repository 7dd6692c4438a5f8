"""Calls of ``ocipod`` for what the manager does not implement itself: images and pods."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from ociruntime.base.errors import BadRequest, Conflict, ManagerError, NotFound
from ociruntime.manager.containers.pod_calls import message_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from ociruntime.manager.containers.pod_calls import Programs

# ocipod exits with one status for all failures, so its message tells them apart.
_MEANING: tuple[tuple[str, type[ManagerError]], ...] = (
    ("is not in the store", NotFound),
    ("is used by a pod", Conflict),
)
_SILENT = "run ocipod: it failed without an error message"


async def call(programs: Programs, *args: str) -> str:
    """Run ``ocipod`` and return its standard output.

    Raises NotFound, Conflict or ManagerError with its error, HostError.
    """
    try:
        return await programs.ocipod(*args)
    except BadRequest:
        raise
    except ManagerError as failure:
        raise _classified(str(failure)) from None


async def progress_of(programs: Programs, *args: str) -> AsyncIterator[dict[str, Any]]:
    """Run ``ocipod fetch``; yield ``{"progress", "done", "total"}`` objects, then ``{"id"}``.

    Raises ManagerError with its error, HostError.
    """
    process = await programs.started(programs.command(*args))
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
        found = (await out).decode(errors="replace").split()
    except ValueError:
        message = "read the progress of ocipod fetch: a line is too long or invalid JSON"
        raise ManagerError(message) from None
    finally:
        out.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status or not found:
        raise _classified(message_of(errors, "ocipod") or _SILENT)
    yield {"id": found[-1]}


def _classified(text: str) -> ManagerError:
    kind = next((kind for part, kind in _MEANING if part in text), ManagerError)
    return kind(text)
