"""The routes to log in to registries."""

from __future__ import annotations

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest
from ociruntime.manager.api.requests import read_body, required
from ociruntime.manager.containers.manager import Manager

_LOGIN: checks.Members = {
    "registry": checks.text,
    "username": checks.text,
    "password": checks.nonempty,
}


async def log_in(manager: Manager, request: web.Request) -> web.Response:
    """Check credentials at a registry and keep them, for the images of all clients."""
    body = await read_body(request, _LOGIN)
    user, password = required(body, "username"), required(body, "password")
    if "\n" in password or "\r" in password:
        raise BadRequest("password", "must be one line")
    words = ["login", f"--username={user}", "--password-stdin", "--", body.get("registry", "")]
    # Not as an argument, which other users of the host could see.
    await manager.programs.call(*filter(None, words), content=password.encode())
    return web.Response(status=204)


async def log_out(manager: Manager, request: web.Request) -> web.Response:
    """Remove the credentials of a registry that ``log_in`` has kept."""
    body = await read_body(request, {"registry": checks.text})
    await manager.programs.call("logout", "--", *filter(None, [body.get("registry", "")]))
    return web.Response(status=204)


ROUTES = (
    ("POST", "/v1/login", log_in),
    ("POST", "/v1/logout", log_out),
)
