"""Registries whose responses do not fit the request, and connections that fail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from requests.exceptions import ConnectionError as RequestConnectionError
from requests.exceptions import ReadTimeout, SSLError

from ociruntime.base.errors import RegistryError
from ociruntime.images.registry import http_client
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.registry import Registry
from tests.support import images

DIGEST = images.digest(b"blob")
URL = "https://host/v2/web/blobs/x?token=secret"


class Response:
    def __init__(self, status: int, url: str = URL, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.url = url
        self.reason = "reason"
        self.content = b""
        self.raw = self
        self.closed = False

    def read(self, *_: object, **__: object) -> bytes:
        return b""

    def iter_content(self, _: int) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        self.closed = True


class Http:
    """Gives the responses in turn, and keeps the requests."""

    def __init__(self, *responses: Response) -> None:
        self.responses = list(responses)
        self.requests: list[tuple[str, dict[str, str]]] = []

    def url(self, host: str, path: str) -> str:
        return f"https://{host}{path}"

    def request(self, method: str, url: str, headers: dict[str, str]) -> Response:
        del url
        self.requests.append((method, headers))
        return self.responses.pop(0)


def client(*responses: Response) -> tuple[Registry, Http]:
    http: Any = Http(*responses)
    return Registry("host", "web", http), http


@pytest.mark.parametrize("content_range", ["", "bytes 0-3/4", "bytes 20-30/31", "bytes */4"])
def test_another_range_than_the_requested_one(content_range: str) -> None:
    """The bytes would be written at the wrong place of the file."""
    response = Response(206, Content_Range=content_range)
    registry, _ = client(response)
    with pytest.raises(RegistryError, match=f"download blob {DIGEST} from .*: requested .* byte"):
        registry.open_blob(DIGEST, 2)
    assert response.closed


def test_the_requested_range() -> None:
    registry, http = client(Response(206, Content_Range="bytes 2-3/4"))
    assert registry.open_blob(DIGEST, 2)[1] == 2
    assert http.requests[0][1]["Range"] == "bytes=2-"


def test_a_range_behind_the_end_of_the_blob() -> None:
    """The registry's blob is shorter than what an earlier attempt has received."""
    refused = Response(416)
    registry, http = client(refused, Response(200))
    assert registry.open_blob(DIGEST, 9)[1] == 0
    assert refused.closed
    assert [headers.get("Range") for _, headers in http.requests] == ["bytes=9-", None]


@pytest.mark.parametrize("status", [404, 500])
def test_requests_that_are_refused(status: int) -> None:
    attempts: list[Callable[[Registry], object]] = [
        lambda one: one.ping(),
        lambda one: one.head_manifest("v1"),
        lambda one: one.manifest("v1"),
        lambda one: one.open_blob(DIGEST),
    ]
    for attempt in attempts:
        registry, _ = client(Response(status))
        with pytest.raises(RegistryError, match=str(status)):
            attempt(registry)


@pytest.mark.parametrize(("reported", "expected"), [(DIGEST, DIGEST), ("", ""), ("sha256:x", "")])
def test_the_digest_that_a_registry_reports(reported: str, expected: str) -> None:
    registry, _ = client(Response(200, Docker_Content_Digest=reported))
    assert registry.head_manifest("v1") == expected


def test_a_challenge_of_another_host() -> None:
    """A host to which the registry redirects gets no credentials."""
    challenge = Response(401, "https://other/x", WWW_Authenticate='Basic realm="x"')
    registry, http = client(challenge)
    with pytest.raises(RegistryError, match="401"):
        registry.open_blob(DIGEST)
    assert len(http.requests) == 1


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (SSLError("x: SSLError('bad certificate')"), "host: TLS: .*bad cert", "options=tls"),
        (SSLError("SSLError(1, 'WRONG_VERSION_NUMBER')"), "host: TLS: 1, ", "options=http to"),
        (ReadTimeout("x"), "GET https://host/v2/web/blobs/x: timed out", ""),
        (RequestConnectionError("NameResolutionError(x)"), "cannot resolve .* host name", ""),
        (RequestConnectionError("[Errno 111] refused"), "host: connection refused", ""),
        (RequestConnectionError(f"url: {URL} (reset)"), r"url: \S*blobs/x \(reset\)", ""),
    ],
)
def test_connections_that_fail(error: Exception, message: str, hint: str) -> None:
    """The query of a URL may be a secret: it is never shown."""
    found = http_client._request_error("GET", URL, error)
    with pytest.raises(RegistryError, match=message):
        raise found
    assert "secret" not in str(found)
    assert hint in found.hint


def test_a_port_without_tls() -> None:
    """It answers the handshake in plain text."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        http = HttpClient(frozenset())
        assert http._supports_tls(f"127.0.0.1:{server.getsockname()[1]}") is False
        http.close()
        thread.join(10)


def test_a_port_that_is_closed() -> None:
    """The request reports the error of HOST:PORT; HOST is tried on port 80 as well."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    http = HttpClient(frozenset())
    assert http._supports_tls(f"127.0.0.1:{port}") is True
    assert http._supports_tls("127.99.0.1") is False
    http.close()
