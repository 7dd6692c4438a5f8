"""A manager stub that records its requests, behind the real API."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from ociruntime.base.errors import Conflict, ManagerError, NotFound, StartFailed
from ociruntime.manager.api.routes import make_application
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_calls import Programs

ID = "ab" * 32
POD = "0b9d2a6e-4a5c-4e8b-9b7f-2f6f0a6f7c01"


def record(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a container as the API shows it."""
    return {
        "id": ID,
        "name": "web",
        "status": "running",
        "image": "docker.io/library/busybox:latest",
        "rootfs": None,
        "command": ["/bin/sh", "-c", "sleep 1"],
        "created_at": "2026-11-22T10:00:00.120000000Z",
        "started_at": "2026-11-22T10:00:01.000000000Z",
        "finished_at": None,
        "exit_code": None,
        "signal": None,
        "oom_killed": False,
        "error": "",
        "pid": 4711,
        "pod": POD,
        "restart_policy": {"name": "no", "maximum": 0},
        "restart_count": 0,
        "labels": {},
        "auto_remove": False,
        "stop_signal": "SIGTERM",
        "stop_timeout": 10,
        "addresses": {"default": "172.16.28.2"},
        "ports": [],
        "spec": {},
        **changes,
    }


class ProgramsStub(Programs):
    """Runs a Python program instead of ``ocipod``."""

    def __init__(self, settings: Settings, calls: list[tuple[Any, ...]]) -> None:
        super().__init__(settings)
        self.calls = calls
        self.program = "print('[]')"

    def command(self, *words: str) -> list[str]:
        own = ("--die-with-parent=", "--nofile=")  # they differ from run to run
        self.calls.append(("ocipod", *(word for word in words if not word.startswith(own))))
        return [sys.executable, "-I", "-S", "-c", self.program, *words]


class ManagerStub:
    """A manager with one container, ``web``; ``calls`` are the requests, ``error`` is raised."""

    def __init__(self, place: Path) -> None:
        self.settings = Settings(
            root=str(place / "root"), directory=str(place / "pods"), client_insecure=("tls",)
        )
        self.records = [record()]
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.ended = asyncio.Event()
        self.slow = asyncio.Event()  # what `create` waits for
        self.slow.set()
        self.programs = ProgramsStub(self.settings, self.calls)

    def find(self, ref: str) -> ContainerStub:
        for one in self.records:
            if ref == one["name"] or one["id"].startswith(ref):
                return ContainerStub(self, one)
        raise NotFound(f'no container with name or ID "{ref}" found')

    def list(self, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        self.call("list", asked)
        return self.records

    def call(self, *call: object) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    async def create(self, spec: dict[str, Any], *, download: bool) -> dict[str, Any]:
        self.call("create", spec)
        if not download:
            raise NotFound('image "x" is not in the store')
        await self.slow.wait()
        self.calls.append(("created",))
        return record(name=spec.get("name"), status="created")

    async def prune(self) -> tuple[Sequence[str], int]:
        self.call("prune")
        return [ID], 4096


class ContainerStub:
    """A container of a ManagerStub, which records the requests for it."""

    is_corrupt = True  # there is no pod from which details could be read

    def __init__(self, manager: ManagerStub, answer: dict[str, Any]) -> None:
        self.manager = manager
        self.answer = answer
        self.id = answer["id"]
        self.name = answer["name"]
        self.location = (manager.settings.directory, POD, "app")

    def inspect(self) -> dict[str, Any]:
        return self.answer

    async def start(self, *, strict: bool) -> bool:
        self.manager.call("start", self.id, strict)
        return True

    async def stop(self, seconds: float | None, *, strict: bool) -> bool:
        self.manager.call("stop", self.id, seconds, strict)
        return False

    async def restart(self, seconds: float | None) -> None:
        self.manager.call("restart", self.id, seconds)

    async def kill(self, signal: str) -> None:
        self.manager.call("kill", self.id, signal)

    async def pause(self, *, paused: bool) -> None:
        self.manager.call("pause" if paused else "unpause", self.id)

    async def update(self, changes: object) -> None:
        self.manager.call("update", self.id, changes)

    async def rename(self, name: str) -> None:
        self.manager.call("rename", self.id, name)

    async def remove(self, *, force: bool, volumes: bool = False) -> None:
        self.manager.call("remove", self.id, force, volumes)

    async def wait(self, condition: str) -> dict[str, Any]:
        self.manager.call("wait", self.id, condition)
        try:
            await self.manager.ended.wait()
        except asyncio.CancelledError:
            self.manager.calls.append(("waited no longer",))
            raise
        return {"exit_code": 3, "signal": None, "oom_killed": False, "error": ""}


ERRORS = {
    "conflict": (Conflict("it is stopped"), 409),
    "failed": (ManagerError("the disk is full"), 500),
    "start_failed": (StartFailed("no such program", 127), 400),
    "internal": (ValueError("nobody thought of that"), 500),
}


class Api:
    """The API on a socket, served in a separate thread."""

    def __init__(self, manager: ManagerStub, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.manager = manager
        self.path = path
        self.loop = loop

    def __call__(
        self, method: str, path: str, body: object = None, raw: bytes | None = None
    ) -> tuple[int, Any]:
        """Send a request; return status and document (None if there is none)."""
        status, _, data = self.exchange(method, path, body, raw)
        return status, json.loads(data) if data else None

    def exchange(
        self, method: str, path: str, body: object = None, raw: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return status, headers (names in lower case), body."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        with self.connect() as sock:
            try:
                sock.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough
            with sock.makefile("rb") as file:
                status = int(file.readline().split()[1])
                headers = {}
                while (line := file.readline().strip()) != b"":
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                return status, headers, file.read()

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        sock.connect(str(self.path))
        return sock

    def set(self, event: asyncio.Event) -> None:
        self.loop.call_soon_threadsafe(event.set)


@contextmanager
def served(place: Path) -> Iterator[Api]:
    """Serve the API of a ManagerStub at ``place``/sock."""
    loop = asyncio.new_event_loop()
    manager = ManagerStub(place)
    path = place / "sock"
    runner = web.AppRunner(
        make_application(cast("Manager", manager)), access_log=None, shutdown_timeout=1
    )

    async def begin() -> None:
        await runner.setup()
        await web.UnixSite(runner, str(path)).start()

    loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Api(manager, path, loop)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.run_until_complete(_end_tasks(loop))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks of connections that are still open."""
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
