"""The routes to log in to and out of image registries."""

from __future__ import annotations

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest
from ociruntime.manager.api.parse_requests import read_body, required
from ociruntime.manager.containers.manager import Manager

_LOGIN: checks.Members = {
    "registry": checks.text,
    "username": checks.text,
    "password": checks.nonempty,
}


async def log_in(manager: Manager, request: web.Request) -> web.Response:
    """Check credentials at a registry and store them for the pulls of all clients."""
    body = await read_body(request, _LOGIN)
    user, password = required(body, "username"), required(body, "password")
    if "\n" in password or "\r" in password:
        raise BadRequest("password", "must not contain line breaks")
    args = ["login", f"--username={user}", "--password-stdin", "--", body.get("registry", "")]
    # The password is not an argument, because other users of the host could see that.
    await manager.programs.call(*filter(None, args), content=password.encode())
    return web.Response(status=204)


async def log_out(manager: Manager, request: web.Request) -> web.Response:
    """Remove the credentials that ``log_in`` has stored for a registry."""
    body = await read_body(request, {"registry": checks.text})
    await manager.programs.call("logout", "--", *filter(None, [body.get("registry", "")]))
    return web.Response(status=204)


ROUTES = (
    ("POST", "/v1/login", log_in),
    ("POST", "/v1/logout", log_out),
)
