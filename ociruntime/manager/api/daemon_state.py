"""The routes of the daemon itself: ping, version, info."""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import TYPE_CHECKING

from aiohttp import web

from ociruntime import __version__

if TYPE_CHECKING:
    from ociruntime.manager.containers.manager import Manager

API = "v1"


async def ping(manager: Manager, request: web.Request) -> web.Response:
    """Confirm that the daemon is up."""
    del manager, request
    return web.json_response({"ok": True})


async def version(manager: Manager, request: web.Request) -> web.Response:
    """Return the versions of the daemon, the API, Python and the kernel."""
    del manager, request
    return web.json_response(
        {
            "ocid": __version__,
            "api": API,
            "Python": platform.python_version(),
            "Linux": platform.release(),
            "machine": platform.machine(),
        }
    )


async def info(manager: Manager, request: web.Request) -> web.Response:
    """Return the daemon's directories and the number of containers by status."""
    del request
    settings = manager.settings
    counted = Counter(one["status"] for one in manager.list())
    return web.json_response(
        {
            "version": __version__,
            "pid": os.getpid(),
            "root": settings.root,
            "directory": settings.directory,
            "runtime": settings.runtime or "ociruntime",
            "containers": counted.total(),
            "running": counted["running"],
            "paused": counted["paused"],
            "stopped": counted["stopped"],
            "host": platform.node(),
            "processors": os.cpu_count(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        }
    )


ROUTES = (
    ("GET", "/v1/ping", ping),
    ("GET", "/v1/version", version),
    ("GET", "/v1/info", info),
)
