"""The API's route that reports the disk usage of images, containers and volumes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from ociruntime.base.deep_tree import disk_usage
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_status import ACTIVE

Summary = dict[str, Any]


async def disk_space(manager: Manager, request: web.Request) -> web.Response:
    """Return ``{"images", "containers", "volumes"}``, the disk usage of each kind of object.

    Each value has the members ``count``, ``active`` (number of objects in use), ``size`` (bytes on
    disk) and ``reclaimable`` (bytes of unused objects).  A container is in use while it is running
    or paused, an image or volume while a container refers to it.
    """
    del request
    images = json.loads(await manager.programs.call("image", "list", "--format=json"))
    rows = {
        "images": _images(manager, images),
        "containers": await _containers(manager),
        "volumes": await _volumes(manager),
    }
    return web.json_response(rows)


def _summary(sizes: list[tuple[int, bool]]) -> Summary:
    """Return ``{"count", "active", "size", "reclaimable"}`` for pairs (bytes, whether in use)."""
    return {
        "count": len(sizes),
        "active": sum(active for _, active in sizes),
        "size": sum(size for size, _ in sizes),
        "reclaimable": sum(size for size, active in sizes if not active),
    }


def _images(manager: Manager, images: list[dict[str, Any]]) -> Summary:
    used = {
        container.record.image_id for container in manager.containers if not container.is_corrupt
    }
    sizes = {
        image["id"]: image["size"] for image in images
    }  # an image with several names counts once
    return _summary([(size, image_id in used) for image_id, size in sizes.items()])


async def _containers(manager: Manager) -> Summary:
    # Read the statuses here, because the event loop may change a container while a thread runs.
    containers = [
        (container, container.inspect()["status"] in ACTIVE) for container in manager.containers
    ]
    return _summary(
        [
            (await asyncio.to_thread(manager.size, container), active)
            for container, active in containers
        ]
    )


async def _volumes(manager: Manager) -> Summary:
    volumes = [
        (volume["mountpoint"], bool(volume["containers"])) for volume in manager.volumes.find({})
    ]
    return _summary(
        [(await asyncio.to_thread(disk_usage, path), active) for path, active in volumes]
    )


ROUTES = (("GET", "/v1/system/df", disk_space),)
