"""The routes of images, which call ``ocipod``."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.api.errors import error_document
from ociruntime.manager.api.requests import flag, read_body, required
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.spec import INSECURE, PULL_POLICIES

_PULL = {
    "image": checks.text,
    "pull_policy": checks.one_of(*PULL_POLICIES),
    "insecure": checks.list_of(checks.one_of(*INSECURE)),
}


async def list_images(manager: Manager, request: web.Request) -> web.Response:
    """List the images in the store, one object per name of an image."""
    del request
    out = await manager.programs.call("image", "list", "--format=json")
    return web.Response(text=out, content_type="application/json")


async def pull(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Pull an image and stream its progress as JSON lines.

    They are ``{"progress", "done", "total"}`` and at the end ``{"id"}`` or ``{"error"}``.  The pull
    is finished even if the client disconnects.
    """
    body = await read_body(request, _PULL)
    image = required(body, "image")
    manager.settings.check_insecure(body.get("insecure") or ())
    answer = web.StreamResponse()
    answer.content_type = "application/x-ndjson"
    await answer.prepare(request)
    connected = True
    async for line in _pulled(manager, image, body):
        if connected:
            connected = await _send(answer, line)
    if connected:
        await answer.write_eof()
    return answer


async def _pulled(manager: Manager, image: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
    policy = PULL_POLICIES[body.get("pull_policy", "always")]
    insecure = [f"--insecure-options={','.join(body['insecure'])}"] if body.get("insecure") else []
    args = ("fetch", "--full", "--progress=json", f"--pull-policy={policy}", "--", image)
    try:
        async for line in manager.programs.fetch_with_progress(*insecure, *args):
            yield line
    except RuntimeFailure as failure:
        yield error_document(failure)


async def _send(answer: web.StreamResponse, line: dict[str, Any]) -> bool:
    """Send a line; return whether the client is still connected."""
    try:
        await answer.write(json.dumps(line).encode() + b"\n")
    except ConnectionError:
        return False
    return True


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove an image that no pod uses, or with ``force`` any image."""
    options = ["--force"] if flag(request.query, "force") else []
    ref = request.match_info["ref"]
    await manager.programs.call("image", "rm", *options, "--", ref)
    return web.Response(status=204)


ROUTES = (
    ("GET", "/v1/images", list_images),
    ("POST", "/v1/images/pull", pull),
    # An image's name may contain slashes.
    ("DELETE", "/v1/images/{ref:.+}", remove),
)
