"""docker's own client with a fake daemon of one container: how docker executes a template."""

from __future__ import annotations

import json
import shutil
import socketserver
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest


class DockerClient:
    """Runs ``docker inspect`` of the container ``document``; skips the test without docker."""

    def __init__(self, document: dict[str, Any]) -> None:
        program = shutil.which("docker")
        if program is None:
            pytest.skip("docker is not installed")
        self._program = program
        self._home = Path(tempfile.mkdtemp(prefix="docker-client-"))
        self._server = _Server(str(self._home / "s"), _Handler)
        self._server.body = json.dumps(document).encode()
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> DockerClient:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        shutil.rmtree(self._home)

    def inspected(self, text: str) -> subprocess.CompletedProcess[str]:
        """Return the client's output for a template."""
        words = [
            *(self._program, f"--config={self._home}", f"--host=unix://{self._home}/s"),
            *("container", "inspect", f"--format={text}", "web"),
        ]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self._home)}
        return subprocess.run(words, capture_output=True, text=True, env=env, check=False)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    body = b""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        self._send(b"OK" if self.path.endswith("_ping") else self.server.body)

    def _send(self, body: bytes) -> None:
        try:
            self.send_response(200)
            self.send_header("Api-Version", "1.41")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            return  # the client has what it wants

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: object) -> None:
        del args
