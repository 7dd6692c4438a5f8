"""The API's routes for images and registry logins; each handler runs an ``ocipod`` command."""

from __future__ import annotations

import json
import os
from typing import Any

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, Conflict, NotFound, RuntimeFailure
from ociruntime.manager.api.error_answers import error_document
from ociruntime.manager.api.parse_requests import flag, read_body, required
from ociruntime.manager.api.stream_output import send_output
from ociruntime.manager.containers.container_spec import INSECURE, PULL_POLICIES, check_platform
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.ocipod_requests import platform_args

_LOGIN: checks.Members = {
    "registry": checks.text,
    "username": checks.text,
    "password": checks.nonempty,
}
_INSECURE: checks.Members = {"insecure": checks.list_of(checks.one_of(*INSECURE))}
_PULL: checks.Members = {
    "image": checks.text,
    "pull_policy": checks.one_of(*PULL_POLICIES),
    "platform": check_platform,
    **_INSECURE,
}


async def list_images(manager: Manager, request: web.Request) -> web.Response:
    """List the images in the store; an image with several names is listed once for each name."""
    del request
    out = await manager.programs.call("image", "list", "--format=json")
    return web.Response(text=out, content_type="application/json")


async def pull(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Pull an image and stream the progress as JSON lines.

    The lines are ``{"progress", "done", "total"}``; the last line is ``{"id"}`` or ``{"error"}``.
    The pull continues if the client disconnects.
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
    args = ["fetch", "--full", "--progress=json", f"--pull-policy={policy}", *platform_args(body)]
    args += ["--", image]
    try:
        async for line in manager.programs.fetch_with_progress(*_insecure(body), *args):
            yield line
    except RuntimeFailure as failure:
        yield error_document(failure)


def _insecure(body: dict[str, Any]) -> list[str]:
    names = body.get("insecure")
    return [f"--insecure-options={','.join(names)}"] if names else []


async def _send(answer: web.StreamResponse, line: dict[str, Any]) -> bool:
    """Send a JSON line to the client; return False if the client has disconnected."""
    try:
        await answer.write(json.dumps(line).encode() + b"\n")
    except ConnectionError:
        return False
    return True


async def inspect(manager: Manager, request: web.Request) -> web.Response:
    """Return an image's settings, layers and history (``images/model/inspect_details.py``)."""
    out = await manager.programs.call("image", "inspect", "--", request.match_info["ref"])
    return web.json_response(json.loads(out)[0])


async def tag(manager: Manager, request: web.Request) -> web.Response:
    """Give an image the additional name ``name``."""
    body = await read_body(request, {"name": checks.text})
    name = required(body, "name")
    await manager.programs.call("image", "tag", "--", request.match_info["ref"], name)
    return web.Response(status=204)


async def load(manager: Manager, request: web.Request) -> web.Response:
    """Load the images from the archive at ``path`` on this host; return their ids and names."""
    body = await read_body(request, {"path": checks.text, **_INSECURE})
    path = required(body, "path")
    if not os.path.isabs(path):
        raise BadRequest("path", f'"{path}" is not an absolute path')
    manager.settings.check_insecure(body.get("insecure") or ())
    out = await manager.programs.fetch(*_insecure(body), "image", "load", "--", path)
    lines = [line.split(" ") for line in out.splitlines()]
    return web.json_response([{"id": line[0], "names": line[1:]} for line in lines])


async def archive(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send an image as a tar archive of an OCI image layout, which ``docker load`` reads."""
    command = ("image", "export", "--", request.match_info["ref"], "-")
    return await send_output(request, manager.programs, command)


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove an image; without ``force``, answer 409 if a pod uses it.

    If the image has several names and the request gives one of them, removes only that name.
    """
    options = ["--force"] if flag(request.query, "force") else []
    ref = request.match_info["ref"]
    await manager.programs.call("image", "rm", "--untag", *options, "--", ref)
    return web.Response(status=204)


async def prune(manager: Manager, request: web.Request) -> web.Response:
    """Remove the images that no pod uses; return their ids and the number of bytes freed.

    Without ``all``, removes only images without a name.
    """
    body = await read_body(request, {"all": checks.flag})
    rows = json.loads(await manager.programs.call("image", "list", "--format=json"))
    named = {row["id"] for row in rows if row["name"]}
    # An image with several names counts once.
    sizes = {row["id"]: row["size"] for row in rows if body.get("all") or row["id"] not in named}
    removed = []
    options = () if body.get("all") else ("--unnamed",)
    for image_id in sizes:
        try:
            await manager.programs.call("image", "rm", *options, "--", image_id)
        except (Conflict, NotFound):
            continue  # in use, or another request has named or removed it
        removed.append(image_id)
    freed = sum(sizes[image_id] for image_id in removed)
    return web.json_response({"removed": removed, "freed": freed})


async def log_in(manager: Manager, request: web.Request) -> web.Response:
    """Log in to a registry, and store the credentials for the pulls of all clients."""
    body = await read_body(request, _LOGIN)
    user, password = required(body, "username"), required(body, "password")
    if "\n" in password or "\r" in password:
        raise BadRequest("password", "must not contain line breaks")
    args = ["login", f"--username={user}", "--password-stdin", "--", body.get("registry", "")]
    # Pass the password on stdin: all users of the host can see the arguments of a process.
    await manager.programs.call(*filter(None, args), content=password.encode())
    return web.Response(status=204)


async def log_out(manager: Manager, request: web.Request) -> web.Response:
    """Remove the stored credentials for a registry."""
    body = await read_body(request, {"registry": checks.text})
    await manager.programs.call("logout", "--", *filter(None, [body.get("registry", "")]))
    return web.Response(status=204)


ROUTES = (
    ("GET", "/v1/images", list_images),
    ("POST", "/v1/images/pull", pull),
    ("POST", "/v1/images/load", load),
    ("POST", "/v1/images/prune", prune),
    # An image's name may contain slashes.
    ("GET", "/v1/images/{ref:.+}/json", inspect),
    ("GET", "/v1/images/{ref:.+}/archive", archive),
    ("POST", "/v1/images/{ref:.+}/tag", tag),
    ("DELETE", "/v1/images/{ref:.+}", remove),
    ("POST", "/v1/login", log_in),
    ("POST", "/v1/logout", log_out),
)
