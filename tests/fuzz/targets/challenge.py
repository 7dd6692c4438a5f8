"""A registry's answers other than content, and files with credentials for it.

The first byte of an input selects what the rest is: ``c`` a WWW-Authenticate header, ``r`` a
Retry-After header, ``l`` a Content-Length header, ``b`` the body of a refusal, ``t`` that of a
token server, ``a`` a file ``auth.json``.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.settings_files import parse_object
from ociruntime.images.registry import authentication, credential_files, http_client
from ociruntime.images.registry.registry import Registry
from ociruntime.images.registry.resumable_download import Download
from tests.fuzz.mutation import change_lines, json_mutator
from tests.fuzz.target import Target, refusals

_mutate_json = json_mutator(
    ("auths", "auth", "username", "password", "identitytoken", "errors", "message", "code", "token",
     "access_token")
)  # fmt: skip


class _Response:
    """An answer of a registry."""

    def __init__(
        self, body: bytes, headers: dict[str, str] | None = None, status: int = 401
    ) -> None:
        self.raw = self
        self.headers = headers or {}
        self.status_code = status
        self.reason = "no"
        self.url = "https://r.example.com/v2/"
        self._body = io.BytesIO(body)

    def read(self, size: int, decode_content: bool = False) -> bytes:
        return self._body.read(size)

    def close(self) -> None:
        pass


class _Http:
    """A client with prepared answers: the challenge, then the token."""

    def __init__(self, header: str, token: bytes) -> None:
        self._answers = [_Response(b"", {"WWW-Authenticate": header}), _Response(token, status=200)]

    def url(self, host: str, path: str) -> str:
        return f"https://{host}{path}"

    def allows_http(self, host: str) -> bool:
        return False

    def request(self, method: str, url: str, headers: dict[str, str], *others: object) -> _Response:
        assert url.startswith("https://"), "a password would be sent in the clear"
        assert all(value.isascii() or value.isprintable() for value in headers.values())
        return self._answers.pop(0) if self._answers else _Response(b"", status=200)


def _ask(header: str, token: bytes) -> None:
    credential = credential_files.Credential("u", "p")
    registry = Registry.__new__(Registry)
    registry.host = registry._address = "r.example.com"
    registry.repository = "a/b"
    registry._http, registry._credential = _Http(header, token), credential  # type: ignore[assignment]
    registry._authorization = ""
    registry._request("GET", "/manifests/latest", {})


def _challenge(text: str) -> None:
    parsed = authentication.challenges(text)
    for one in parsed:
        assert one.scheme == one.scheme.lower()
        shown = (
            one.scheme + " " + ", ".join(f'{k}="{_quoted(v)}"' for k, v in one.parameters.items())
        )
        assert authentication.challenges(shown) == [one], "a challenge is not what it says"
    with refusals():
        _ask(text, b'{"token": "t"}')


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _length(text: str) -> None:
    sources = mock.Mock()
    sources.open_blob.return_value = (_Response(b"", {"Content-Length": text}, 200), 0)
    download = Download.__new__(Download)
    download._sources, download._response, download._at = sources, None, 0
    download.blob = Descriptor("", "sha256:" + "0" * 64, 5)
    with refusals():
        download._connect()


def _credentials(data: bytes) -> None:
    with refusals():
        document = parse_object(data, "auth.json")
        for name, (key, entry) in credential_files._entries("auth.json", document).items():
            assert isinstance(name, str)
            try:
                found = credential_files._credential("auth.json", key, entry)
            except ImageError:
                continue
            assert found.basic.isascii()


def run(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    text = rest.decode("latin-1")
    if kind == b"c":
        _challenge(text)
    elif kind == b"r":
        pause = http_client.retry_after(text, 1_800_000_000.0)
        assert pause is None or pause >= 0
    elif kind == b"l":
        _length(text)
    elif kind == b"b":
        failure: Any = http_client.refusal("GET", _Response(rest))  # type: ignore[arg-type]
        assert len(str(failure)) < 5000
    elif kind == b"t":
        with refusals():
            _ask('Bearer realm="https://t.example.com/token",service="r"', rest)
    elif kind == b"a":
        _credentials(rest)


def seeds() -> Iterator[bytes]:
    yield b'cBearer realm="https://auth.docker.io/token",service="registry",scope="a:b:pull"'
    yield b'cBasic realm="r", Bearer realm="http://\\"t\\"/", error=invalid'
    yield b"cBasic"
    yield b"r120"
    yield b"rWed, 21 Oct 2026 07:28:00 GMT"
    yield b"l5"
    yield b'b{"errors": [{"code": "DENIED", "message": "no"}]}'
    yield b't{"token": "abc", "expires_in": 300}'
    yield b't{"access_token": "abc"}'
    yield b'a{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "r": {"username": "u"}}}'
    yield b'a{"auths": {"r": {"identitytoken": "t", "username": "u", "password": ""}}}'


def mutate(data: bytes, rng: random.Random) -> bytes:
    kind = (
        data[:1]
        if data and rng.random() < 0.95
        else rng.choice((b"c", b"r", b"l", b"b", b"t", b"a"))
    )
    if kind in (b"b", b"t", b"a"):
        try:
            json.loads(data[1:])
        except (ValueError, RecursionError):
            return kind + rng.choice(
                (b'{"auths": {"r": {}}}', b'{"errors": [{}]}', b'{"token": 1}')
            )
        return kind + bytes(_mutate_json(data[1:], rng))
    return kind + change_lines(data[1:], rng, rng.choice((b" ", b",", b'"', b"=", b":", b"/")))


TARGET = Target(
    run,
    (
        "images/registry/authentication.py",
        "images/registry/credential_files.py",
        "images/registry/http_client.py",
        "images/registry/registry.py",
    ),
    seeds,
    mutate,
    ("Bearer ", 'realm="', "Basic ", "https://", "\\", ", ", "GMT"),
)
