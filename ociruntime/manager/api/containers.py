"""Containers: what is done with them, as routes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from ociruntime.base.errors import BadRequest, NotFound
from ociruntime.manager.api import bodies as api_bodies
from ociruntime.manager.api.bodies import flag, json_query, read_body, read_document
from ociruntime.manager.containers import usage

if TYPE_CHECKING:
    from ociruntime.manager.containers.manager import Manager

_GONE_LOOKED_FOR = 1.0  # seconds between two looks whether a client still waits


async def list_containers(manager: Manager, request: web.Request) -> web.Response:
    """Of those that run, or with ``all`` of all; ``filters`` is a JSON object of lists."""
    found = manager.list(all=flag(request, "all"), filters=json_query(request, "filters"))
    return web.json_response(found)


async def create(manager: Manager, request: web.Request) -> web.Response:
    """The body is described in ``spec.py``."""
    spec = await read_document(request)
    if not isinstance(spec, dict):
        raise BadRequest("", "the body is no JSON object", "it says what the container is to be")
    return web.json_response(await manager.create(spec), status=201)


async def inspect(manager: Manager, request: web.Request) -> web.Response:
    """All about one."""
    return web.json_response(manager.get(_ref(request)))


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """With its files; one that is being removed already is no error."""
    container_id = manager.find(_ref(request))
    try:
        await manager.remove(container_id, force=flag(request, "force"))
    except NotFound:
        pass  # it was there a moment ago: somebody else has removed it
    return web.Response(status=204)


async def start(manager: Manager, request: web.Request) -> web.Response:
    """``changed`` is false if it ran; with ``strict`` that is an error."""
    container_id = manager.find(_ref(request))
    await read_body(request, {})
    changed = await manager.start(container_id, strict=flag(request, "strict"))
    return web.json_response({"id": container_id, "changed": changed})


async def stop(manager: Manager, request: web.Request) -> web.Response:
    """``timeout``: seconds until it is killed."""
    container_id = manager.find(_ref(request))
    body = await read_body(request, {"timeout": api_bodies.duration})
    changed = await manager.stop(container_id, body.get("timeout"), strict=flag(request, "strict"))
    return web.json_response({"id": container_id, "changed": changed})


async def restart(manager: Manager, request: web.Request) -> web.Response:
    """``timeout``: seconds until it is killed."""
    container_id = manager.find(_ref(request))
    body = await read_body(request, {"timeout": api_bodies.duration})
    await manager.restart(container_id, body.get("timeout"))
    return web.json_response({"id": container_id})


async def kill(manager: Manager, request: web.Request) -> web.Response:
    """``signal``: a name or a number."""
    container_id = manager.find(_ref(request))
    body = await read_body(request, {"signal": api_bodies.text_or_number})
    await manager.kill(container_id, str(body.get("signal", "SIGKILL")))
    return web.json_response({"id": container_id})


async def pause(manager: Manager, request: web.Request) -> web.Response:
    """Freeze it."""
    container_id = manager.find(_ref(request))
    await read_body(request, {})
    await manager.pause(container_id)
    return web.json_response({"id": container_id})


async def unpause(manager: Manager, request: web.Request) -> web.Response:
    """Let it go on."""
    container_id = manager.find(_ref(request))
    await read_body(request, {})
    await manager.unpause(container_id)
    return web.json_response({"id": container_id})


async def rename(manager: Manager, request: web.Request) -> web.Response:
    """``name``: the new one."""
    container_id = manager.find(_ref(request))
    body = await read_body(request, {"name": api_bodies.text})
    await manager.rename(container_id, api_bodies.required(body, "name"))
    return web.json_response({"id": container_id})


async def wait(manager: Manager, request: web.Request) -> web.Response:
    """How it has ended, when it has; ``condition`` as ``Manager.wait``."""
    container_id = manager.find(_ref(request))
    body = await read_body(request, {"condition": api_bodies.text})
    waiting = asyncio.ensure_future(
        manager.wait(container_id, body.get("condition", "not-running"))
    )
    try:
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=_GONE_LOOKED_FOR)
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError
        return web.json_response(waiting.result())
    finally:
        waiting.cancel()


async def prune(manager: Manager, request: web.Request) -> web.Response:
    """Remove all that do not run."""
    await read_body(request, {})
    return web.json_response({"removed": await manager.prune()})


async def top(manager: Manager, request: web.Request) -> web.Response:
    """Its processes."""
    place = manager.pod(_ref(request))
    return web.json_response({"processes": await asyncio.to_thread(usage.processes, *place[1:])})


async def stats(manager: Manager, request: web.Request) -> web.Response:
    """What it uses at this moment; null is what nobody counts."""
    record = manager.get(_ref(request))
    place = manager.pod(record["id"])
    facts = await asyncio.to_thread(usage.usage, *place[1:])
    return web.json_response({"id": record["id"], "name": record["name"], **facts})


def _ref(request: web.Request) -> str:
    return request.match_info["ref"]


_ONE = "/v1/containers/{ref}"
ROUTES = (
    ("GET", "/v1/containers", list_containers),
    ("POST", "/v1/containers", create),
    ("POST", "/v1/containers/prune", prune),
    ("GET", _ONE, inspect),
    ("DELETE", _ONE, remove),
    ("POST", f"{_ONE}/start", start),
    ("POST", f"{_ONE}/stop", stop),
    ("POST", f"{_ONE}/restart", restart),
    ("POST", f"{_ONE}/kill", kill),
    ("POST", f"{_ONE}/pause", pause),
    ("POST", f"{_ONE}/unpause", unpause),
    ("POST", f"{_ONE}/rename", rename),
    ("POST", f"{_ONE}/wait", wait),
    ("GET", f"{_ONE}/top", top),
    ("GET", f"{_ONE}/stats", stats),
)
