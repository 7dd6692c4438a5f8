"""The API's routes for all pods: those of containers, and those made directly with ``ocipod``."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.errors import Conflict
from ociruntime.manager.api.parse_requests import read_body
from ociruntime.manager.containers.container_spec import DEFAULTS
from ociruntime.manager.containers.manager import Manager
from ociruntime.pods.store.phases import each_pod, open_pod
from ociruntime.pods.store.pod_status import try_describe


async def list_pods(manager: Manager, request: web.Request) -> web.Response:
    """Return all pods as JSON.

    The member ``container`` is the name of the container that the pod belongs to, or null.
    """
    del request
    owners = _owners(manager)
    pods = await asyncio.to_thread(_described, manager.settings.directory)
    return web.json_response([{**pod, "container": owners.get(pod["id"])} for pod in pods])


def _described(directory: str) -> list[dict[str, Any]]:
    pods = []
    problems: list[str] = []
    for pod in each_pod(directory, problems=problems):
        with pod:
            description = try_describe(pod, problems)
        if description is not None:
            pods.append(
                {
                    "id": description["name"],
                    "state": description["state"],
                    "created_at": description.get("created_at"),
                    "started_at": description.get("started_at"),
                    "apps": description["app_names"],
                    "networks": description["networks"],
                }
            )
    return pods


async def stop(manager: Manager, request: web.Request) -> web.Response:
    """Stop a pod; ``timeout`` is the number of seconds from the stop signal to SIGKILL."""
    uuid = await _pod_without_container(manager, request)
    body = await read_body(request, {"timeout": checks.seconds})
    seconds = int(body.get("timeout", DEFAULTS["stop_timeout"]))
    await manager.programs.call("stop", "--wait", f"--time={seconds}", uuid)
    return web.json_response({"id": uuid})


async def remove(manager: Manager, request: web.Request) -> web.Response:
    """Remove a pod that is not running."""
    uuid = await _pod_without_container(manager, request)
    await manager.programs.call("rm", uuid)
    return web.Response(status=204)


async def _pod_without_container(manager: Manager, request: web.Request) -> str:
    """Return the full UUID of the pod that the request names.

    Raises NoSuchPod if the pod does not exist, Conflict if it belongs to a container.
    """
    uuid = await asyncio.to_thread(_find, manager.settings.directory, request.match_info["uuid"])
    if owner := _owners(manager).get(uuid):
        raise Conflict(
            f'change pod {uuid}: it belongs to container "{owner}"',
            f"use ocictl stop {owner} or ocictl rm {owner}",
        )
    return uuid


def _find(directory: str, text: str) -> str:
    with open_pod(directory, text) as pod:
        return pod.uuid


def _owners(manager: Manager) -> dict[str, str]:
    return {container["pod"]: container["name"] for container in manager.list() if container["pod"]}


ROUTES = (
    ("GET", "/v1/pods", list_pods),
    ("POST", "/v1/pods/{uuid}/stop", stop),
    ("DELETE", "/v1/pods/{uuid}", remove),
)
