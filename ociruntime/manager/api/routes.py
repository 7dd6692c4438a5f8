"""The manager's HTTP API: the table of routes, the routes about the daemon, the access log.

``make_application`` builds the aiohttp application that ocid serves on its socket.  A handler is
called with the manager and the request.  ``error_answers.py`` converts its exceptions to answers.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from ociruntime import __version__
from ociruntime.base.errors import InternalError, RuntimeFailure, unhandled
from ociruntime.manager.api import (
    attach,
    container_files,
    containers,
    disk_usage,
    events,
    exec_route,
    images,
    logs,
    networks,
    pods,
    volumes,
)
from ociruntime.manager.api.error_answers import error_answer, failure_of
from ociruntime.manager.containers.manager import Manager

Handler = Callable[[Manager, web.Request], Awaitable[web.StreamResponse]]
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, Handler]

LARGEST_BODY = 1 << 20  # bytes
API = "v1"
_PEER = struct.Struct("3i")  # struct ucred

log = logging.getLogger("ocid")


async def ping(manager: Manager, request: web.Request) -> web.Response:
    """Return ``{"ok": true}``: the daemon is running."""
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
    """Return properties of the daemon and its host, and the number of containers by status."""
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


ROUTES: tuple[Route, ...] = (
    ("GET", "/v1/ping", ping),
    ("GET", "/v1/version", version),
    ("GET", "/v1/info", info),
    *containers.ROUTES,
    *container_files.ROUTES,
    *images.ROUTES,
    *networks.ROUTES,
    *pods.ROUTES,
    *volumes.ROUTES,
    *logs.ROUTES,
    *events.ROUTES,
    *disk_usage.ROUTES,
    ("GET", "/v1/containers/{ref}/attach", attach.attach),
    ("GET", "/v1/containers/{ref}/exec", exec_route.execute),
)


def make_application(manager: Manager) -> web.Application:
    """Return the aiohttp application that serves all routes for ``manager``."""
    application = web.Application(client_max_size=LARGEST_BODY, middlewares=[_with_errors_and_log])
    for method, path, handler in ROUTES:
        application.router.add_route(method, path, _served(manager, handler))
    return application


def _served(manager: Manager, handler: Handler) -> Served:
    async def serve(request: web.Request) -> web.StreamResponse:
        return await handler(manager, request)

    return serve


@web.middleware
async def _with_errors_and_log(request: web.Request, handler: Served) -> web.StreamResponse:
    """Convert a handler's exceptions to HTTP answers, and log each request.

    A log entry names the client and the status of the answer.
    """
    began = time.monotonic()
    peer = peer_of(request)
    try:
        answer = await handler(request)
    except web.HTTPException as error:
        # Raised by aiohttp itself: unknown route, wrong method, or a body that is too large.
        answer = error_answer(failure_of(error, request), error)
    except RuntimeFailure as failure:
        answer = error_answer(failure)
    except ConnectionError:
        log.info("%s: %s %s: the client disconnected", peer, request.method, request.path)
        raise
    except Exception as error:
        unexpected = unhandled(f"{request.method} {request.path}", error)
        if isinstance(unexpected, InternalError):
            log.exception("%s: %s %s", peer, request.method, request.path)
            answer = error_answer(error)
        else:
            log.error("%s: %s", peer, unexpected)  # noqa: TRY400 - the traceback says no more
            answer = error_answer(unexpected)
    spent = (time.monotonic() - began) * 1000
    log.info("%s: %s %s %d %.0f ms", peer, request.method, request.path, answer.status, spent)
    return answer


def peer_of(request: web.Request) -> str:
    """Return a client's credentials (SO_PEERCRED) for the log, such as ``pid 4711 uid 0``."""
    transport = request.transport
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family != socket.AF_UNIX:
        return "unknown client"
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(credentials)
    return f"pid {pid} uid {uid}"
