"""A registry on loopback that serves a test's content, with the faults that the test sets.

with Registry() as registry:
    registry.push("team/web", "v1", image)             registry.host, e.g. 127.0.0.1:41235
    registry.cut[digest] = 0.6                         the next answer ends after 60 %
    registry.asked("blobs")                            what was asked, in order
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import ssl
import threading
from collections.abc import Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support import images

_PATH = re.compile(r"/v2/(.+)/(manifests|blobs)/([^/]+)")


class Asked:
    """A request: ``path`` with its query, some of its headers, and the answer's status."""

    def __init__(self, method: str, path: str, headers: Message) -> None:
        self.method = method
        self.path = path
        self.range = headers.get("Range", "")
        self.authorization = headers.get("Authorization", "")
        self.encodings = headers.get("Accept-Encoding", "")
        self.status = 0

    def __repr__(self) -> str:
        return f"{self.method} {self.path} {self.range} -> {self.status}"


class Registry:
    """A registry on loopback; its faults are set by members, read at each request."""

    def __init__(
        self,
        *,
        token: bool = False,
        basic: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tags: dict[tuple[str, str], tuple[str, bytes]] = {}  # (repository, tag or digest)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.token = token  # bearer tokens are wanted, from /token
        self.basic = basic  # (user, password), for tokens or, without them, for everything
        self.valid_tokens: set[str] = set()
        self.ranges = True
        self.digest_headers = True
        self.compresses = False  # manifests, although that is not wanted
        self.cut: dict[str, float] = {}  # digest -> share of the blob; each is used once
        self.broken: set[str] = set()  # digests whose answers beyond what was cut end at once
        self.slow: set[str] = set()  # digests that do not go on behind a cut
        self.slow_reached = threading.Event()
        self.released = threading.Event()  # the end of the test
        self.failures: list[tuple[int, dict[str, str]]] = []  # answers to the next requests
        self.realm = ""  # where tokens are given, if not here
        self.redirect = ""  # blobs are elsewhere: http://HOST:PORT
        self.log: list[Asked] = []
        self.lock = threading.Lock()
        self._server = _Server(self)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Registry:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def push(self, repository: str, tag: str, image: images.BuiltImage) -> str:
        """Add an image for one platform; return its digest."""
        for digest, blob in image.blobs.items():
            self.blobs[repository, digest] = blob
        media_type = image.manifest_document["mediaType"]
        return self.push_manifest(repository, tag, image.manifest, media_type)

    def push_index(self, repository: str, tag: str, built: Sequence[images.BuiltImage]) -> str:
        """Add an index with an image per platform; return its digest."""
        for image in built:
            self.push(repository, image.id, image)
        document = {
            "schemaVersion": 2,
            "mediaType": images.OCI_INDEX,
            "manifests": [image.entry for image in built],
        }
        return self.push_manifest(repository, tag, images.to_json(document), images.OCI_INDEX)

    def push_manifest(self, repository: str, tag: str, data: bytes, media_type: str) -> str:
        digest = images.digest(data)
        for name in (tag, digest):
            self.tags[repository, name] = (media_type, data)
        return digest

    def asked(self, word: str = "") -> list[Asked]:
        """Return the requests whose path contains ``word``, except those for tokens."""
        return [one for one in self.log if word in one.path]

    def forget(self) -> None:
        self.log.clear()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Ignore a client that has disconnected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing: the registry records the requests itself."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        registry = self.server.registry
        headers = self.headers
        asked = Asked(self.command, self.path, headers)
        length = int(headers.get("Content-Length", 0))
        self.form = parse_qs(self.rfile.read(length).decode())
        self.asked = asked
        with registry.lock:
            registry.log.append(asked)
            failure = registry.failures.pop(0) if registry.failures else None
        if failure:
            return self._send(failure[0], b"", failure[1])
        split = urlsplit(self.path)
        if split.path == "/token":
            return self._give_token(parse_qs(split.query) | self.form)
        if not self._is_authorized():
            return self._challenge()
        if split.path == "/v2/":
            return self._send(200, b"{}", {})
        match = _PATH.fullmatch(split.path)
        if not match:
            return self._refuse(404, "UNSUPPORTED", "no such place")
        if match[2] == "manifests":
            return self._give_manifest(match[1], match[3])
        return self._give_blob(match[1], match[3])

    def _is_authorized(self) -> bool:
        registry = self.server.registry
        if registry.token:
            kind, _, token = self.asked.authorization.partition(" ")
            return kind == "Bearer" and token in registry.valid_tokens
        return registry.basic is None or self.asked.authorization == _basic(registry.basic)

    def _challenge(self) -> None:
        registry = self.server.registry
        way = 'Basic realm="tests"'
        if registry.token:
            match = _PATH.fullmatch(urlsplit(self.path).path)
            scope = f"repository:{match[1] if match else ''}:pull"
            realm = registry.realm or f"http://{registry.host}/token"
            way = f'Bearer realm="{realm}",service="tests",scope="{scope}"'
        self._refuse(401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": way})

    def _give_token(self, query: dict[str, list[str]]) -> None:
        registry = self.server.registry
        known = self.asked.authorization or f"token {query.get('refresh_token', [''])[0]}"
        if registry.basic and known not in (_basic(registry.basic), f"token {registry.basic[1]}"):
            return self._refuse(401, "UNAUTHORIZED", "who is this")
        token = secrets.token_hex(8)
        registry.valid_tokens.add(token)
        return self._send(200, json.dumps({"token": token}).encode(), {})

    def _give_manifest(self, repository: str, tag: str) -> None:
        registry = self.server.registry
        if (repository, tag) not in registry.tags:
            return self._refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        media_type, data = registry.tags[repository, tag]
        headers = {"Content-Type": media_type}
        if registry.digest_headers:
            headers["Docker-Content-Digest"] = images.digest(data)
        if registry.compresses:
            headers["Content-Encoding"], data = "gzip", images.compress(data, "gzip")
        return self._send(200, data, headers)

    def _give_blob(self, repository: str, digest: str) -> None:
        registry = self.server.registry
        data = registry.blobs.get((repository, digest))
        if data is None:
            return self._refuse(404, "BLOB_UNKNOWN", "blob unknown")
        if registry.redirect:
            target = f"{registry.redirect}{self.path}?signature=secret"
            return self._send(307, b"", {"Location": target})
        status, begin, headers = 200, 0, {"ETag": f'"{digest}"'}
        if registry.ranges and self.asked.range:
            begin = int(self.asked.range.removeprefix("bytes=").rstrip("-"))
            if begin >= len(data):
                return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        with registry.lock:
            share = registry.cut.pop(digest, None)
        end = len(data) if share is None else max(begin, int(len(data) * share))
        if share is None and digest in registry.broken:
            end = begin
        self._send(status, data[begin:], headers, end - begin)
        if share is not None and digest in registry.slow:
            self.wfile.flush()
            registry.slow_reached.set()
            registry.released.wait(30)
        return None

    def _refuse(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self._send(status, body, {"Content-Type": "application/json"} | (headers or {}))

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], sent: int | None = None
    ) -> None:
        """Send the answer; with ``sent``, only that many bytes of the body before disconnecting."""
        self.asked.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
        if sent is not None and sent < len(body):
            self.close_connection = True


def _basic(pair: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}"
