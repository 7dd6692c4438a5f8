"""How the daemon starts ``ocipod``."""

from __future__ import annotations

import asyncio
import json
import sys

from ociruntime.manager.containers.pod_calls import Programs, content_of
from ociruntime.manager.containers.settings import Settings
from ociruntime.pods.manifest.request import AppRequest

# Prints its arguments, and what it can read.
READER = (
    "import json, sys; print(json.dumps([open('/proc/self/cmdline').read(), json.load(sys.stdin)]))"
)


def run(request: AppRequest | None, code: str) -> bytes:
    async def started() -> bytes:
        command = [sys.executable, "-c", code]
        process = await Programs(Settings()).spawn(command, content_of(request))
        return (await process.communicate())[0]

    return asyncio.run(started())


def test_a_request_is_read_from_standard_input() -> None:
    """Variables may be secret, and everybody can read arguments; and they may be long."""
    request = AppRequest(image="i", environment={"SECRET": "x" * (1 << 20)})
    arguments, document = json.loads(run(request, READER))
    assert document == {"image": "i", "environment": request.environment}
    assert "xxx" not in arguments


def test_without_a_request_there_is_nothing_to_read() -> None:
    assert run(None, "import sys; print(repr(sys.stdin.read()))") == b"''\n"
