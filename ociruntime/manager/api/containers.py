"""The routes of the manager's HTTP API for containers."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import BadRequest, NotFound
from ociruntime.manager.api.parse_requests import (
    flag,
    has_gone,
    json_query,
    read_body,
    read_document,
    required,
)
from ociruntime.manager.containers import resource_usage
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.inspect_details import details
from ociruntime.manager.containers.manager import Manager

_POLL = 1.0  # seconds between two checks whether a waiting client is still connected


async def list_containers(manager: Manager, request: web.Request) -> web.Response:
    """List the containers that are running, paused or restarting.

    The query may have ``all=1`` to list all containers, ``filters``, a JSON object of lists of
    strings, and ``size=1`` to add the number of bytes that each container has written.
    """
    filters = json_query(request, "filters")
    answers = manager.list(all=flag(request.query, "all"), filters=filters)
    if flag(request.query, "size"):
        await manager.add_sizes(answers)
    return web.json_response(answers)


async def create(manager: Manager, request: web.Request) -> web.Response:
    """Create a container from the request's body.

    ``manager/containers/container_spec.py`` defines the body.  With ``fetch=0`` in the query,
    answers 404 if the image is not in the store, so that the client can pull the image and show the
    progress.
    """
    spec = await read_document(request)
    if not isinstance(spec, dict):
        raise BadRequest("", "create a container: the request's body must be a JSON object")
    download = flag(request.query, "fetch", default=True)
    return web.json_response(await manager.create(spec, download=download), status=201)


async def inspect(manager: Manager, request: web.Request) -> web.Response:
    """Return a container's status and configuration.

    Unless the container's record is corrupt, the answer also has the member ``details``, which
    ``inspect_details.py`` defines.
    """
    container = manager.find(_ref(request))
    answer = container.inspect()
    if not container.is_corrupt:
        open_pod = container.pod.open
        answer["details"] = details(container.record, open_pod, manager.volumes.directory)
    return web.json_response(answer)


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove a container and its files; with ``volumes``, also its anonymous volumes.

    Succeeds if another request removes the container at the same time.
    """
    container = manager.find(_ref(request))
    force, volumes = flag(request.query, "force"), flag(request.query, "volumes")
    try:
        await container.remove(force=force, volumes=volumes)
    except NotFound:
        pass  # another request has removed the container since ``find``
    return web.Response(status=204)


async def _target(
    manager: Manager, request: web.Request, members: checks.Members | None = None
) -> tuple[Container, dict[str, Any]]:
    """Return the container that a request's path names, and the request's validated JSON body.

    ``members`` maps the name of each permitted member of the body to its check.  Raises NotFound if
    there is no such container, BadRequest if the body is invalid.
    """
    container = manager.find(_ref(request))
    return container, await read_body(request, members or {})


async def start(manager: Manager, request: web.Request) -> web.Response:
    """Start a container; ``changed`` in the answer is false if the container was already running.

    With the query parameter ``strict``, starting a running container is an error (409).
    """
    container, _ = await _target(manager, request)
    changed = await container.start(strict=flag(request.query, "strict"))
    return web.json_response({"id": container.id, "changed": changed})


async def stop(manager: Manager, request: web.Request) -> web.Response:
    """Stop a container; ``timeout`` is the number of seconds from the stop signal to SIGKILL.

    ``changed`` in the answer is false if the container was not running.  With the query parameter
    ``strict``, stopping such a container is an error (409).
    """
    container, body = await _target(manager, request, {"timeout": checks.seconds})
    strict = flag(request.query, "strict")
    changed = await container.stop(body.get("timeout"), strict=strict)
    return web.json_response({"id": container.id, "changed": changed})


async def restart(manager: Manager, request: web.Request) -> web.Response:
    """Stop and start a container.

    ``timeout`` in the body is the number of seconds from the stop signal to SIGKILL.
    """
    container, body = await _target(manager, request, {"timeout": checks.seconds})
    await container.restart(body.get("timeout"))
    return web.json_response({"id": container.id})


async def kill(manager: Manager, request: web.Request) -> web.Response:
    """Send ``signal`` (a name or number; default: SIGKILL) to a container's init."""
    container, body = await _target(manager, request, {"signal": checks.text_or_number})
    await container.kill(str(body.get("signal", "SIGKILL")))
    return web.json_response({"id": container.id})


async def pause(manager: Manager, request: web.Request) -> web.Response:
    """Pause a container: freeze its processes with the cgroup freezer."""
    container, _ = await _target(manager, request)
    await container.pause(paused=True)
    return web.json_response({"id": container.id})


async def unpause(manager: Manager, request: web.Request) -> web.Response:
    """Resume a paused container."""
    container, _ = await _target(manager, request)
    await container.pause(paused=False)
    return web.json_response({"id": container.id})


async def rename(manager: Manager, request: web.Request) -> web.Response:
    """Rename a container to ``name``."""
    container, body = await _target(manager, request, {"name": checks.text})
    await container.rename(required(body, "name"))
    return web.json_response({"id": container.id})


async def update(manager: Manager, request: web.Request) -> web.Response:
    """Change a container's limits and restart policy.

    The body contains the changed members, in the same form as in the body of ``create``.
    """
    container = manager.find(_ref(request))
    await container.update(await read_document(request) or {})
    return web.json_response({"id": container.id})


async def wait(manager: Manager, request: web.Request) -> web.Response:
    """Wait until the container meets ``condition``; return the outcome of its latest run.

    ``condition`` is ``not-running`` (the default), ``next-exit`` or ``removed``.  The outcome is
    ``{"exit_code", "signal", "oom_killed", "error", "finished_at"}``.
    """
    container, body = await _target(manager, request, {"condition": checks.text})
    waiting = asyncio.ensure_future(container.wait(body.get("condition", "not-running")))
    try:
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=_POLL)
            if has_gone(request):
                raise ConnectionResetError
        return web.json_response(waiting.result())
    finally:
        waiting.cancel()


async def prune(manager: Manager, request: web.Request) -> web.Response:
    """Remove all created and stopped containers; return their ids and the number of bytes freed."""
    await read_body(request, {})
    removed, freed = await manager.prune()
    return web.json_response({"removed": removed, "freed": freed})


async def top(manager: Manager, request: web.Request) -> web.Response:
    """List a container's processes."""
    _, uuid, app = manager.find(_ref(request)).location
    return web.json_response(
        {"processes": await asyncio.to_thread(resource_usage.processes, uuid, app)}
    )


async def stats(manager: Manager, request: web.Request) -> web.Response:
    """Return a container's current resource usage; a value is null if it is unknown."""
    container = manager.find(_ref(request))
    _, uuid, app = container.location
    pid = container.inspect()["pid"] or 0
    facts = await asyncio.to_thread(resource_usage.usage, uuid, app, pid)
    return web.json_response({"id": container.id, "name": container.name, **facts})


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
    ("POST", f"{_ONE}/update", update),
    ("POST", f"{_ONE}/wait", wait),
    ("GET", f"{_ONE}/top", top),
    ("GET", f"{_ONE}/stats", stats),
)
