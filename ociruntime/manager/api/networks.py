"""The routes of the manager's HTTP API for networks."""

from __future__ import annotations

from aiohttp import web

from ociruntime.manager.api.parse_requests import json_query, read_body
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.networks import MEMBERS


async def list_networks(manager: Manager, request: web.Request) -> web.Response:
    """List the networks; the query's ``filters`` is a JSON object of lists of strings."""
    return web.json_response(manager.networks.find(json_query(request, "filters")))


async def create(manager: Manager, request: web.Request) -> web.Response:
    """Create a network; the only required member of the body is ``name``."""
    body = await read_body(request, MEMBERS)
    return web.json_response(await manager.networks.create(body), status=201)


async def inspect(manager: Manager, request: web.Request) -> web.Response:
    """Return a network, the containers that use it, and their IP addresses."""
    return web.json_response(manager.networks.inspect(request.match_info["ref"]))


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove an unused network that a client has created."""
    await manager.networks.remove(request.match_info["ref"])
    return web.Response(status=204)


async def prune(manager: Manager, request: web.Request) -> web.Response:
    """Remove all unused networks that clients have created."""
    await read_body(request, {})
    return web.json_response(await manager.networks.prune())


ROUTES = (
    ("GET", "/v1/networks", list_networks),
    ("POST", "/v1/networks", create),
    ("POST", "/v1/networks/prune", prune),
    ("GET", "/v1/networks/{ref}", inspect),
    ("DELETE", "/v1/networks/{ref}", remove),
)
