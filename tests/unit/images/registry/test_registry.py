"""The registry client with a registry that answers as badly as possible."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.reference import parse
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.registry.authentication import challenges
from ociruntime.images.registry.credential_files import Credential, credential, hosts, keys
from ociruntime.images.registry.http_client import HttpClient, read_body
from ociruntime.images.registry.registry import Registry as Client
from ociruntime.images.registry.sources import Sources
from tests.support import images
from tests.support.registry import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.push("web", "v1", images.build([images.pack({"a": "b"})]))
        yield one


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def http(pauses: list[float]) -> Iterator[HttpClient]:
    one = HttpClient(frozenset(), pauses.append)
    yield one
    one.close()


def test_timeout(registry: Registry, http: HttpClient, pauses: list[float]) -> None:
    registry.failures += [(503, {}), (429, {"Retry-After": "7"}), (500, {})]
    assert Client(registry.host, "web", http).manifest("v1").digest
    assert pauses == [0.2, 7, 1.0]


def test_timeout_ends(registry: Registry, http: HttpClient, pauses: list[float]) -> None:
    registry.failures += [(503, {})] * 10
    with pytest.raises(RegistryError, match="503"):
        Client(registry.host, "web", http).manifest("v1")
    assert len(pauses) == 4
    registry.failures[:] = [(429, {"Retry-After": "3600"})]
    with pytest.raises(RegistryError, match="retry after 3600 s"):
        Client(registry.host, "web", http).manifest("v1")


def test_redirects_carry_no_secrets(registry: Registry, http: HttpClient) -> None:
    with Registry(basic=("me", "secret")) as first:
        image = images.build([images.pack({"a": "b"})])
        first.push("web", "v1", image)
        registry.push("web", "v1", image)
        first.redirect = f"http://{registry.host}"
        client = Client(first.host, "web", http, Credential("me", "secret"))
        digest = image.manifest_document["layers"][0]["digest"]
        response, begin = client.open_blob(digest)
        assert (read_body(response, 1 << 20), begin) == (image.stored[0], 0)
        assert first.asked("blobs")[-1].authorization.startswith("Basic ")
        assert [one.authorization for one in registry.asked("blobs")] == [""]
        first.redirect = "http://registry.example.org"
        with pytest.raises(
            RegistryError, match=r"refusing redirect from .* to http://registry\.example\.org"
        ):
            client.open_blob(digest)
        first.redirect = "file:///etc/passwd"
        with pytest.raises(RegistryError, match="to file"):
            client.open_blob(digest)


def test_a_circle_of_redirects(registry: Registry, http: HttpClient) -> None:
    registry.redirect = f"http://{registry.host}"
    with pytest.raises(RegistryError, match="redirects"):
        Client(registry.host, "web", http).open_blob(next(iter(registry.blobs))[1])


def test_tokens_run_out(http: HttpClient) -> None:
    with Registry(token=True) as registry:
        registry.push("web", "v1", images.build([images.pack({"a": "b"})]))
        client = Client(registry.host, "web", http)
        client.manifest("v1")
        client.manifest("v1")
        assert len(registry.asked("/token")) == 1
        registry.valid_tokens.clear()
        client.manifest("v1")
        assert len(registry.asked("/token")) == 2


def test_identity_tokens(http: HttpClient) -> None:
    with Registry(token=True, basic=("me", "identity")) as registry:
        registry.push("web", "v1", images.build([images.pack({"a": "b"})]))
        Client(registry.host, "web", http, Credential("", "", "identity")).manifest("v1")
        assert registry.asked("/token")[0].method == "POST"


def test_identity_tokens_go_nowhere_else(registry: Registry, http: HttpClient) -> None:
    with Registry(token=True) as guarded:
        guarded.push("web", "v1", images.build([images.pack({"a": "b"})]))
        guarded.realm = f"http://{guarded.host}/elsewhere"
        guarded.failures = [
            (401, {"WWW-Authenticate": f'Bearer realm="{guarded.realm}"'}),
            (307, {"Location": f"http://{registry.host}/token"}),
        ]
        client = Client(guarded.host, "web", http, Credential("", "", "identity"))
        with pytest.raises(RegistryError, match=f"to http://{registry.host}/token"):
            client.manifest("v1")
    assert registry.log == []


def test_without_credentials(http: HttpClient) -> None:
    with Registry(basic=("me", "secret")) as guarded:
        place = f"http://{guarded.host}/v2/web/manifests/v1"
        words = rf"GET {place}: 401 unauthorized .log in to {guarded.host}, or add .*auth\.json"
        with pytest.raises(RegistryError, match=words):
            Client(guarded.host, "web", http).manifest("v1")
        refused = Client(guarded.host, "web", http, Credential("me", "guess"))
        with pytest.raises(RegistryError, match=r"authentication required .* the credentials for"):
            refused.manifest("v1")


def test_tokens_from_no_address(registry: Registry, http: HttpClient) -> None:
    registry.failures.append((401, {"WWW-Authenticate": 'Bearer realm="https://["'}))
    words = f"{registry.host}: refusing token server 'https://\\['"
    with pytest.raises(RegistryError, match=words):
        Client(registry.host, "web", http).manifest("v1")


@pytest.mark.parametrize("realm", ["https:/tokens.example.org/t", "https:///t", "https://:5000/t"])
def test_tokens_from_no_host(registry: Registry, http: HttpClient, realm: str) -> None:
    registry.failures.append((401, {"WWW-Authenticate": f'Bearer realm="{realm}"'}))
    words = f"{registry.host}: refusing token server '{realm}': "
    with pytest.raises(RegistryError, match=words):
        Client(registry.host, "web", http).manifest("v1")


@pytest.mark.parametrize("token", ["{}", '{"token": 1}', '{"token": "a\\nb"}', '{"token": "\xe9"}'])
def test_no_token(registry: Registry, http: HttpClient, token: str) -> None:
    """A token that would add a header is not used either."""
    registry.push_manifest("tokens", "it", token.encode(), "application/json")
    registry.failures.append(
        (401, {"WWW-Authenticate": f'Bearer realm="http://{registry.host}/v2/tokens/manifests/it"'})
    )
    with pytest.raises(RegistryError, match=r"/manifests/it: .*token"):
        Client(registry.host, "web", http).manifest("v1")


def test_a_token_from_elsewhere_without_encryption(http: HttpClient) -> None:
    with Registry(token=True) as registry:
        registry.realm = "http://tokens.example.org/token"
        with pytest.raises(
            RegistryError,
            match=r"refusing token server 'http://tokens\.example\.org/.*not HTTPS",
        ):
            Client(registry.host, "web", http, Credential("me", "secret")).manifest("v1")


def test_ranges(registry: Registry, http: HttpClient) -> None:
    client = Client(registry.host, "web", http)
    (_, digest), blob = next(iter(registry.blobs.items()))
    for ranges, wanted in ((True, 5), (False, 0)):
        registry.ranges = ranges
        response, begin = client.open_blob(digest, 5)
        assert (begin, read_body(response, 1 << 20)) == (wanted, blob[wanted:])
    registry.ranges = True
    response, begin = client.open_blob(digest, len(blob))
    assert (begin, read_body(response, 1 << 20)) == (0, blob)


def test_digests_are_compared(registry: Registry, http: HttpClient) -> None:
    client = Client(registry.host, "web", http)
    digest = client.head_manifest("v1")
    assert client.manifest("v1").digest == client.manifest(digest).digest == digest
    registry.tags["web", digest] = (images.OCI_MANIFEST, b"{}")
    with pytest.raises(ImageError, match="digest mismatch"):
        client.manifest(digest)
    registry.digest_headers = False
    assert client.head_manifest("v1") == ""


def test_a_manifest_without_end(registry: Registry, http: HttpClient) -> None:
    registry.push_manifest("web", "long", b"x" * (5 << 20), images.OCI_MANIFEST)
    with pytest.raises(RegistryError, match="longer than"):
        Client(registry.host, "web", http).manifest("long")


def test_challenges() -> None:
    header = 'Bearer realm="https://a/t",service="s",scope="repository:x:pull,push", Basic realm=x'
    bearer, basic = challenges(header)
    assert bearer.scheme == "bearer"
    assert bearer.parameters == {
        "realm": "https://a/t",
        "service": "s",
        "scope": "repository:x:pull,push",
    }
    assert (basic.scheme, basic.parameters) == ("basic", {"realm": "x"})
    assert challenges("") == []
    assert challenges("Negotiate")[0].scheme == "negotiate"
    assert challenges('Basic realm="a \\"b\\""')[0].parameters == {"realm": 'a "b"'}


# --- TLS ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(tz=UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    path.write_bytes(secret + made.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[Registry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Registry(tls=context) as one:
        one.push("web", "v1", images.build([images.pack({"a": "b"})]))
        yield one


def test_certificates_are_checked(encrypted: Registry, pauses: list[float]) -> None:
    """Also where plain HTTP is allowed: a TLS connection stays protected."""
    for insecure in (frozenset[str](), frozenset({"http"})):
        http = HttpClient(insecure, pauses.append)
        with pytest.raises(RegistryError, match=r"certificate.*--insecure-options=tls"):
            Client(encrypted.host, "web", http).manifest("v1")
        http.close()
    assert (encrypted.log, pauses) == ([], [])


def test_certificates_that_are_not_checked(encrypted: Registry) -> None:
    http = HttpClient(frozenset({"tls"}))
    assert Client(encrypted.host, "web", http).manifest("v1").digest
    http.close()


def test_certificates_of_the_environment(
    encrypted: Registry, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    http = HttpClient(frozenset())
    assert Client(encrypted.host, "web", http).manifest("v1").digest
    http.close()


# --- credentials ---


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("local", "user", "home/.docker"):
        (tmp_path / name).mkdir(parents=True)
    return Settings(str(tmp_path / "system"), str(tmp_path / "local"), str(tmp_path / "user"))


def refuse(warning: str) -> None:
    raise AssertionError(warning)


def test_where_credentials_are(settings: Settings, tmp_path: Path) -> None:
    docker = tmp_path / "home/.docker/config.json"
    docker.write_text(
        '{"auths": {"https://index.docker.io/v1/": {"auth": "bWU6c2Vj"}, "empty.org": {}},'
        ' "credsStore": "x"}'
    )
    local = tmp_path / "local/auth.json"
    local.write_text(
        '{"auths": {"r.org:5000/team": {"username": "t", "password": "p:q"},'
        ' "r.org:5000": {"identitytoken": "i"}}}'
    )
    assert credential(settings, "docker.io", "library/web", refuse) == Credential("me", "sec")
    assert credential(settings, "r.org:5000", "team/web", refuse) == Credential("t", "p:q")
    assert credential(settings, "r.org:5000", "teams/web", refuse) == Credential("", "", "i")
    assert credential(settings, "empty.org", "web", refuse) is None
    (tmp_path / "user/auth.json").write_text('{"auths": {"r.org:5000": {"auth": "YTpi"}}}')
    assert credential(settings, "r.org:5000", "team/web", refuse) == Credential("a", "b")
    assert hosts(settings, refuse) == {
        "r.org:5000": str(tmp_path / "user/auth.json"),
        "r.org:5000/team": str(local),
        "docker.io": str(docker),
    }
    assert "sec" not in repr(Credential("me", "sec"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "JSON object"),
        ("{", "invalid JSON"),
        ('{"auths": []}', '"auths"'),
        ('{"auths": {"r.org": 1}}', '"auths"'),
        ('{"auths": {"r.org": {"auth": "?"}}}', r'auths\["r\.org"\]\.auth: invalid base64'),
        ('{"auths": {"r.org": {"auth": "bWU="}}}', r"\.auth: "),
        ('{"auths": {"r.org": {"username": 1}}}', "username, .*identitytoken"),
        ('{"auths": {"r.org": {"username": "\\ud800"}}}', "username, .*identitytoken"),
        ('{"auths": {"r.org": {"x": 1}}}', "must have auth"),
    ],
)
def test_damaged_credentials(settings: Settings, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "local/auth.json").write_text(text)
    with pytest.raises(ImageError, match=rf"local/auth\.json.*{message}"):
        credential(settings, "r.org", "web", refuse)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("name", ["REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "HOME"])
def test_credentials_of_another_user(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With sudo, variables may name the caller's files: root says that it ignores them."""
    file = tmp_path / "home/.docker/config.json"
    file.write_text('{"auths": {"r.org": {"auth": "bWU6c2Vj"}}}')
    places = {"REGISTRY_AUTH_FILE": file, "DOCKER_CONFIG": file.parent, "HOME": tmp_path / "home"}
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv(name, str(places[name]))
    assert credential(settings, "r.org", "web", refuse) == Credential("me", "sec")
    os.chown(file, 1000, 1000)
    warnings: list[str] = []
    assert credential(settings, "r.org", "web", warnings.append) is None
    (warning,) = warnings
    assert f'"{file}": the file belongs to uid 1000 (' in warning
    file.unlink()
    os.mkfifo(file)
    os.chown(file, 1000, 1000)
    assert hosts(settings, warnings.append) == {}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["FIFO", "device", "large"])
def test_credentials_that_do_not_end(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = tmp_path / "auth.json"
    if kind == "FIFO":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as large:
            large.truncate(1 << 40)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(file))
    problem = ".* 1048576 bytes" if kind == "large" else ".*regular file"
    with pytest.raises(ImageError, match=f'read credentials "{file}": {problem}'):
        credential(settings, "r.org", "web", refuse)


def test_keys_of_credentials() -> None:
    assert keys("r.org", "a/b") == ["r.org/a/b", "r.org/a", "r.org"]
    assert keys("docker.io", "a") == ["docker.io/a", "docker.io"]


@pytest.mark.parametrize(
    "key", ["docker.io", "registry-1.docker.io", "https://index.docker.io/v2/"]
)
def test_registries_by_other_names(settings: Settings, tmp_path: Path, key: str) -> None:
    file = tmp_path / "local/auth.json"
    entries: dict[str, object] = {key: {"identitytoken": "a"}, "r.org:443/x": {"auth": "?"}}
    file.write_text(json.dumps({"auths": entries}))
    assert credential(settings, "docker.io", "library/web", refuse) == Credential("", "", "a")
    with pytest.raises(ImageError, match=r'auths\["r\.org:443/x"\]\.auth: invalid base64'):
        credential(settings, "r.org", "x/web", refuse)
    other = {"index.docker.io": {"identitytoken": "b"}}
    file.write_text(json.dumps({"auths": entries | other}))
    assert credential(settings, "docker.io", "library/web", refuse) == Credential("", "", "a")
    (tmp_path / "local/registries.json").write_text(
        json.dumps({"mirrors": {key: ["m.org:443/hub"]}})
    )
    if "://" not in key:
        http = HttpClient(frozenset())
        found = Sources.of(parse("busybox"), settings, http, refuse)
        assert list(map(str, found.registries)) == [
            "m.org/hub/library/busybox",
            "docker.io/library/busybox",
        ]


def test_mirrors(settings: Settings, tmp_path: Path) -> None:
    assert settings.mirrors() == {}
    (tmp_path / "local/registries.json").write_text('{"mirrors": {"a": ["x/"], "b": ["y"]}}')
    (tmp_path / "user/registries.json").write_text('{"mirrors": {"a": []}}')
    assert settings.mirrors() == {"a": [], "b": ["y"]}
    for text, message in (
        ('{"mirror": {}}', 'unknown member "mirror"'),
        ('{"mirrors": []}', "mirrors must"),
        ('{"mirrors": {"a": ["http://x"]}}', r'mirrors\["a"\] '),
    ):
        (tmp_path / "user/registries.json").write_text(text)
        with pytest.raises(ImageError, match=rf"user/registries\.json.: {message}"):
            settings.mirrors()
