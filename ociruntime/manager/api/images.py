"""Images of the store, by the program ``ocipod``, as routes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiohttp import web

from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.api import bodies as api_bodies
from ociruntime.manager.api.bodies import flag, read_body, required
from ociruntime.manager.api.errors import error_document
from ociruntime.manager.containers.ocipod_program import call, progress_of
from ociruntime.manager.containers.spec import INSECURE

if TYPE_CHECKING:
    from typing import Any

    from ociruntime.manager.containers.manager import Manager

# Policy -> as `ocipod` calls it.
_POLICIES = {"missing": "new", "always": "update", "never": "never"}
_PULL = {
    "image": api_bodies.text,
    "pull_policy": api_bodies.one_of(*_POLICIES),
    "insecure": api_bodies.list_of(*INSECURE),
}


async def list_images(manager: Manager, request: web.Request) -> web.Response:
    """A row for each name of each image."""
    del request
    out = await call(manager.programs, "image", "list", "--format=json")
    return web.Response(text=out, content_type="application/json")


async def pull(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Lines of JSON: ``{"progress", "done", "total"}``, at the end ``{"id"}`` or ``{"error"}``.

    A client that goes does not keep the image from being there afterwards.
    """
    body = await read_body(request, _PULL)
    image = required(body, "image")
    manager.settings.check_insecure(body.get("insecure") or ())
    answer = web.StreamResponse()
    answer.content_type = "application/x-ndjson"
    await answer.prepare(request)
    told = True
    async for line in _pulled(manager, image, body):
        if told:
            told = await _tell(answer, line)
    if told:
        await answer.write_eof()
    return answer


async def _pulled(manager: Manager, image: str, body: dict[str, Any]) -> Any:  # noqa: ANN401
    policy = _POLICIES[body.get("pull_policy", "always")]
    insecure = [f"--insecure-options={','.join(body['insecure'])}"] if body.get("insecure") else []
    words = ("fetch", "--full", "--progress=json", f"--pull-policy={policy}", "--", image)
    try:
        async for line in progress_of(manager.programs, *insecure, *words):
            yield line
    except RuntimeFailure as failure:
        yield error_document(failure)


async def _tell(answer: web.StreamResponse, line: dict[str, Any]) -> bool:
    """Whether anybody still listens."""
    try:
        await answer.write(json.dumps(line).encode() + b"\n")
    except ConnectionError:
        return False
    return True


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """One that no pod uses, or any with ``force``."""
    words = ["--force"] if flag(request, "force") else []
    ref = request.match_info["ref"]
    await call(manager.programs, "image", "rm", *words, "--", ref)
    return web.Response(status=204)


ROUTES = (
    ("GET", "/v1/images", list_images),
    ("POST", "/v1/images/pull", pull),
    # A name has slashes.
    ("DELETE", "/v1/images/{ref:.+}", remove),
)
