"""The program ``ocipod``, asked for what the manager itself knows nothing of: images and pods."""

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

# It has one exit status for all failures: words of its errors -> what they mean here.
_MEANING: tuple[tuple[str, type[ManagerError]], ...] = (
    ("is not in the store", NotFound),
    ("is used by a pod", Conflict),
)
_NO_WORD = "ocipod ended without a word"


async def call(programs: Programs, *words: str) -> str:
    """Its standard output.  Raises ManagerError with its error, HostError."""
    try:
        return await programs.ocipod(*words)
    except BadRequest:
        raise
    except ManagerError as failure:
        raise _meant(str(failure)) from None


async def progress_of(programs: Programs, *words: str) -> AsyncIterator[dict[str, Any]]:
    """``{"progress", "done", "total"}`` while it fetches, then ``{"id"}``.

    Raises ManagerError with its error, HostError.
    """
    process = await programs.started(programs.command(*words))
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
        raise ManagerError("ocipod has written a line that is too long, or no JSON") from None
    finally:
        out.cancel()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status or not found:
        raise _meant(message_of(errors, "ocipod") or _NO_WORD)
    yield {"id": found[-1]}


def _meant(text: str) -> ManagerError:
    kind = next((kind for words, kind in _MEANING if words in text), ManagerError)
    return kind(text)
