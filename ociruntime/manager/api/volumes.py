"""The routes of the manager's HTTP API for volumes."""

from __future__ import annotations

from aiohttp import web

from ociruntime.base import checks
from ociruntime.manager.api.parse_requests import check_lists, json_query, read_body
from ociruntime.manager.containers.manager import Manager


async def list_volumes(manager: Manager, request: web.Request) -> web.Response:
    """List the volumes; the query's ``filters`` is a JSON object of lists of strings."""
    return web.json_response(manager.volumes.find(json_query(request, "filters")))


async def create(manager: Manager, request: web.Request) -> web.Response:
    """Create the volume ``name`` with ``labels``, or return the existing volume.

    Without ``name``, the volume is anonymous.
    """
    members = {"name": checks.text, "labels": checks.strings_by_name}
    body = await read_body(request, members)
    made = manager.volumes.create(body.get("name"), body.get("labels"))
    return web.json_response(made, status=201)


async def inspect(manager: Manager, request: web.Request) -> web.Response:
    """Return a volume's path and labels, and the names of the containers that use it."""
    return web.json_response(manager.volumes.inspect(request.match_info["ref"]))


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove an unused volume and its files."""
    await manager.volumes.remove(request.match_info["ref"])
    return web.Response(status=204)


async def prune(manager: Manager, request: web.Request) -> web.Response:
    """Remove all unused anonymous volumes; with ``all``, also the unused named volumes."""
    body = await read_body(request, {"all": checks.flag, "filters": check_lists})
    removed = await manager.volumes.prune(body.get("filters") or {}, named=bool(body.get("all")))
    return web.json_response(removed)


ROUTES = (
    ("GET", "/v1/volumes", list_volumes),
    ("POST", "/v1/volumes", create),
    ("POST", "/v1/volumes/prune", prune),
    ("GET", "/v1/volumes/{ref}", inspect),
    ("DELETE", "/v1/volumes/{ref}", remove),
)
