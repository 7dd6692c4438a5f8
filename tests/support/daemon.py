"""``ocid`` with separate directories, and the removal of everything that a test leaves in them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import leaks, processes, project
from tests.support.ocipod import PROGRAM, RUNTIME, Ocipod, after
from tests.support.runtime import Result, execute

OCID = PROGRAM.with_name("ocid")
OCICTL = PROGRAM.with_name("ocictl")
# A program that runs until it is stopped.
STAYS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
STARTING = 30.0  # seconds that the daemon may take, on a machine with other work


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Answer:
    """The daemon's answer: ``status``, and ``json`` (None without a body)."""

    def __init__(self, what: str, status: int, body: bytes) -> None:
        self.what = what
        self.status = status
        self.body = body

    @property
    def json(self) -> Any:  # noqa: ANN401 - a JSON document
        return json.loads(self.body) if self.body else None

    def __repr__(self) -> str:
        return f"<{self.what}: {self.status} {self.body!r}>"

    def ok(self) -> Any:  # noqa: ANN401 - a JSON document
        """Assert success; return the document."""
        assert 200 <= self.status < 300, self
        return self.json

    def failed(self, status: int, *words: str) -> dict[str, Any]:
        """Assert the status and each word in the message; return the error."""
        assert self.status == status, self
        error: dict[str, Any] = self.json["error"]
        for word in words:
            assert word in error["message"], self
        return error


class Daemon:
    """``ocid --root WORK/m --dir WORK/data --socket WORK/s``; starts when ``start`` is called."""

    def __init__(self, work: Path, *options: str) -> None:
        self.root = work / "m"
        self.socket = work / "s"
        self.log = work / "ocid.log"
        self.pods = Ocipod(work / "data")
        self.options = options
        self.environment: dict[str, str] = {}  # variables besides our own
        self.process: subprocess.Popen[bytes] | None = None
        self._connections: list[Connection] = []

    # --- its life ---

    def command(self, *options: str) -> list[str]:
        return [
            str(OCID),
            f"--root={self.root}",
            f"--dir={self.pods.directory}",
            f"--socket={self.socket}",
            f"--runtime={self.pods.runtime}",
            "--insecure-options=image",
            *self.options,
            *options,
        ]

    def start(
        self, *options: str, fault: str = "", wait: bool = True, program: Path = OCID
    ) -> Daemon:
        """Start the daemon in the foreground, with its log in a file.

        With ``wait``, returns once it answers.  ``fault`` is the value of OCIPOD_FAULT.
        """
        assert self.process is None
        words = self.command(*options)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(program) if word == str(OCID) else word for word in words],
                env=Ocipod.environment(fault, self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            assert processes.until(self._answers, STARTING), self.log.read_text()
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self("GET", "/v1/ping").status == 200
        except OSError:
            return False

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """Kill the daemon with SIGKILL, whatever it is doing."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop the daemon with SIGTERM; return its exit status."""
        return self._end(signal.SIGTERM)

    def died(self, seconds: float = 30) -> int:
        """Wait until the daemon exits by itself; return its exit status."""
        process, self.process = self.process, None
        assert process is not None
        return process.wait(seconds)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        return process.wait(STARTING)

    # --- asking it ---

    def __call__(
        self, method: str, path: str, body: object = None, *, timeout: float = 60
    ) -> Answer:
        """Send one request.

        Raises OSError or HTTPException (see http.client) if the daemon exits meanwhile.
        """
        connection = Connection(self.socket, timeout)
        try:
            data = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return Answer(f"{method} {path}", answer.status, answer.read())
        finally:
            connection.close()

    def create(self, name: str = "", **spec: Any) -> str:  # noqa: ANN401 - JSON
        """Create a container; return its id."""
        if name:
            spec["name"] = name
        spec.setdefault("network", "none")
        identifier: str = self("POST", "/v1/containers", spec).ok()["id"]
        self.pods.look()
        return identifier

    def run(self, name: str = "", **spec: Any) -> str:  # noqa: ANN401 - JSON
        """Create and start a container; return its id."""
        identifier = self.create(name, **spec)
        self.verb(identifier, "start").ok()
        return identifier

    def verb(self, ref: str, verb: str, body: object = None) -> Answer:
        """Send POST /v1/containers/REF/VERB; ``verb`` may include a query."""
        try:
            return self("POST", f"/v1/containers/{ref}/{verb}", body)
        finally:
            self.pods.look()

    def get(self, ref: str) -> dict[str, Any]:
        found: dict[str, Any] = self("GET", f"/v1/containers/{ref}").ok()
        return found

    def list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("GET", "/v1/containers?all=1").ok()
        return found

    def status(self, ref: str) -> str:
        """Return the container's status, or "gone"."""
        answer = self("GET", f"/v1/containers/{ref}")
        return "gone" if answer.status == 404 else str(answer.ok()["status"])

    def wait_for(self, ref: str, *statuses: str, seconds: float = 30) -> dict[str, Any]:
        """Poll until the container has one of the statuses; return its description."""
        last = ""

        def there() -> bool:
            nonlocal last
            last = self.status(ref)
            return last in statuses

        assert processes.until(there, seconds), f"{ref} is {last}, not {' or '.join(statuses)}"
        return {} if last == "gone" else self.get(ref)

    def remove(self, ref: str) -> None:
        self("DELETE", f"/v1/containers/{ref}?force=1").ok()

    def recorded_events(self) -> Sequence[dict[str, Any]]:
        """Return all events that were stored on disk."""
        text = (self.root / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    @property
    def client(self) -> Sequence[str]:
        """Return the command line of ``ocictl`` with this daemon's socket."""
        return [str(OCICTL), f"--socket={self.socket}"]

    def ctl(self, *words: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> Result:
        """Run ``ocictl --socket SOCKET WORD...`` to its end."""
        whole = {**os.environ, **(env or {})}
        try:
            done = execute(
                [*self.client, *words],
                env=whole,
                stdin=subprocess.DEVNULL,
                timeout=timeout,
            )
        finally:
            self.pods.look()
        return done

    # --- the end ---

    def finish(self) -> None:
        """End the daemon and remove every pod; assert nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            if project.COUNTING:
                self.process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(STARTING)
            self.kill()
        # What it had begun ends with it.
        time.sleep(0.05)
        self.pods.finish()


@contextmanager
def life(work: Path) -> Iterator[Daemon]:
    """Context manager for a fixture: a running ``ocid``; fails if its containers leave anything."""
    one = Daemon(work)
    mounts = leaks.mount_table()
    running = frozenset(processes.descendants())
    try:
        yield one.start()
    finally:
        one.finish()
        found = after(one.pods, lambda: one.pods.left(mounts, running))
    if found:
        processes.end(processes.descendants() - running)
        processes.reap_orphans()
        pytest.fail("left behind: " + "; ".join(found), pytrace=False)


def has_ended(pid: int) -> bool:
    """Return whether a process that is not our child has exited."""
    return not processes.alive(pid)


__all__ = ("OCICTL", "OCID", "RUNTIME", "Answer", "Connection", "Daemon", "has_ended", "life")
