"""The registry client's handling of responses, including malformed ones."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest
from requests import Response
from requests.exceptions import RequestException

from ociruntime.base.errors import RegistryError
from ociruntime.images.registry.credential_files import Credential
from ociruntime.images.registry.http_client import (
    HttpClient,
    is_loopback,
    read_body,
    refusal,
    retry_after,
)
from ociruntime.images.registry.registry import Registry as Client
from tests.support import images
from tests.support.registry import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.push("web", "v1", images.build([images.pack({"a": "b"})]))
        yield one


@pytest.fixture
def http() -> Iterator[HttpClient]:
    one = HttpClient(frozenset(), lambda seconds: None)
    yield one
    one.close()


def test_hosts_without_encryption() -> None:
    assert [is_loopback(host) for host in ("localhost", "localhost:5000", "127.1.2.3:1")] == [
        True
    ] * 3
    assert is_loopback("[::1]:5000")
    assert not any(
        map(is_loopback, ("example.org", "]", "[", "localhost.example.org", "10.0.0.1:80", ""))
    )
    assert not HttpClient(frozenset()).allows_http("10.0.0.1")
    assert HttpClient(frozenset({"http"})).allows_http("10.0.0.1")


def test_retry_after() -> None:
    now = time.time()
    assert retry_after("12", now) == 12
    assert retry_after("", now) is None
    assert retry_after("soon", now) is None
    assert retry_after("01 Jan 0001 00:00:00 99999999999999999999", now) is None
    later = retry_after(formatdate(now + 30, usegmt=True), now)
    assert later is not None
    assert 28 < later <= 31
    assert retry_after(formatdate(now - 30, usegmt=True), now) == 0


def test_errors_tell_no_queries(http: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blob stores' queries are valid as credentials for some time."""

    def fail(method: str, url: str, *rest: object) -> None:
        what = "Max retries exceeded with url: /blob?signature=secret (Caused by no route to host)"
        raise RequestException(what)

    monkeypatch.setattr(http, "_once", fail)
    with pytest.raises(RegistryError, match=r"url: /blob \(Caused by no route") as raised:
        http.request("GET", "https://store.example.org/blob?signature=secret", {})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("http://[", "to invalid URL 'http://['"),
        ("http://127.0.0.1:1:2/", "to invalid URL 'http://127.0.0.1:1:2/'"),
        ("http://127.0.0.1:99999/", "to invalid URL 'http://127.0.0.1:99999/'"),
    ],
)
def test_redirects_to_no_address(
    registry: Registry, http: HttpClient, target: str, words: str
) -> None:
    registry.failures.append((307, {"Location": target}))
    with pytest.raises(RegistryError) as raised:
        http.request("GET", f"http://{registry.host}/v2/", {})
    assert words in str(raised.value)


# Readers of addresses do not agree where the host of these begins, or ends.
AMBIGUOUS = [
    "http://{other}\\@{host}/x",
    "http://{other}\\x@{host}/x",
    "http://{other}@{host}/x",
    "http://me:secret@{other}/x",
    "http://{other}/a b",
    "http://{other}/^",
    "http://{other}/\xe9",
]


@pytest.mark.parametrize("form", AMBIGUOUS)
def test_redirects_to_ambiguous_addresses(registry: Registry, http: HttpClient, form: str) -> None:
    with Registry() as first:
        first.push("web", "v1", images.build([images.pack({"a": "b"})]))
        target = form.format(other=registry.host, host=first.host)
        first.failures.append((307, {"Location": target}))
        client = Client(first.host, "web", http, Credential("me", "secret"))
        with pytest.raises(RegistryError) as raised:
            client.manifest("v1")
        place = f"http://{first.host}/v2/web/manifests/v1"
        assert f"from {place} to {target!r}: the URL " in str(raised.value)
        assert len(first.log) == 1
    assert registry.log == []


@pytest.mark.parametrize("form", AMBIGUOUS)
def test_tokens_from_ambiguous_addresses(registry: Registry, http: HttpClient, form: str) -> None:
    with Registry() as guarded:
        realm = form.format(other=registry.host, host=guarded.host)
        quoted = realm.replace("\\", "\\\\")
        guarded.failures.append((401, {"WWW-Authenticate": f'Bearer realm="{quoted}"'}))
        client = Client(guarded.host, "web", http, Credential("me", "secret"))
        with pytest.raises(RegistryError) as raised:
            client.manifest("v1")
        words = f"{guarded.host}: refusing token server {realm!r}: ambiguous URL"
        assert words in str(raised.value)
        assert len(guarded.log) == 1
    assert registry.log == []


@pytest.mark.parametrize("length", [9, 10, 11])
def test_bodies_have_a_limit(registry: Registry, http: HttpClient, length: int) -> None:
    registry.push_manifest("web", "x", b"x" * length, "text/plain")
    response = http.request("GET", f"http://{registry.host}/v2/web/manifests/x", {})
    if length > 10:
        with pytest.raises(RegistryError, match=r"/x: .*10 bytes"):
            read_body(response, 10)
    else:
        assert read_body(response, 10) == b"x" * length


def test_bodies_that_are_cut(registry: Registry, http: HttpClient) -> None:
    (_, digest), blob = next(iter(registry.blobs.items()))
    registry.cut[digest] = 0.5
    response, _ = Client(registry.host, "web", http).open_blob(digest)
    with pytest.raises(RegistryError, match=f"/blobs/{digest}: .*interrupted"):
        read_body(response, len(blob))


def test_compressed_bodies_are_not_wanted(registry: Registry, http: HttpClient) -> None:
    """A thousand bytes may expand to a million, or without end."""
    client = Client(registry.host, "web", http)
    client.manifest("v1")
    assert {one.encodings for one in registry.log} == {"identity"}
    registry.compresses = True
    registry.push_manifest("web", "bomb", bytes(8 << 20), images.OCI_MANIFEST)
    for tag in ("v1", "bomb"):
        with pytest.raises(RegistryError, match=f"/{tag}: unsupported Content-Encoding gzip"):
            client.manifest(tag)


def test_requests_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(RegistryError, match=r"requests .pip install"):
        HttpClient(frozenset())._open_session()


class Body(io.BytesIO):
    """The response body that urllib3 provides."""

    def read(self, size: int | None = -1, decode_content: bool = True) -> bytes:
        del decode_content
        return super().read(size)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"errors": [{"message": "%s"}]}' % (b"x" * 60000), "x" * 200 + "..."),
        (b"[" * 60000, "404 not found"),
    ],
)
def test_a_long_or_deep_refusal(body: bytes, expected: str) -> None:
    """The registry chooses the message, which is printed on terminals and parsed by line."""
    answer = Response()
    answer.status_code, answer.reason, answer.url = 404, "Not Found", "http://host/v2/"
    answer.raw = Body(body)
    text = str(refusal("GET", answer))
    assert text.endswith(expected)
    assert len(text) < 300
