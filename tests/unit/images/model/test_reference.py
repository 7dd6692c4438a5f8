"""All forms of image references, and invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.reference import parse

SHA = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("docker://busybox", "docker.io/library/busybox:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("registry-1.docker.io/busybox:1", "docker.io/library/busybox:1"),
        ("docker://registry.hub.docker.com:443/team/web", "docker.io/team/web:latest"),
        ("example.org:443/web", "example.org/web:latest"),
        ("hub:443/web", "hub:443/web:latest"),  # without the port it would be Docker Hub's hub/web
        ("hub:0443/web", "hub:443/web:latest"),
        ("localhost:443/web", "localhost/web:latest"),
        ("example.org:0443/web", "example.org/web:latest"),
        ("example.org:05000/web", "example.org:5000/web:latest"),
        ("example.org:8443/web", "example.org:8443/web:latest"),
        ("[::1]:443/web", "[::1]/web:latest"),
        ("[0:0::0:1]:05000/web", "[::1]:5000/web:latest"),
        ("[FE80::A]/web", "[fe80::a]/web:latest"),
        ("team/web", "docker.io/team/web:latest"),
        ("localhost/web", "localhost/web:latest"),
        ("localhost:5000/a/b/c:v1", "localhost:5000/a/b/c:v1"),
        ("[::1]:5000/web", "[::1]:5000/web:latest"),
        ("Registry.Example.ORG/web", "registry.example.org/web:latest"),
        ("quay.io/a_b/c__d/e-f.g:T_1.2-3", "quay.io/a_b/c__d/e-f.g:T_1.2-3"),
        (f"busybox@{SHA}", f"docker.io/library/busybox@{SHA}"),
        (f"host:1/web:2@{SHA}", f"host:1/web:2@{SHA}"),
        ("example.org/x.tar:1", "example.org/x.tar:1"),
        ("docker://cafe/x.tar", "docker.io/cafe/x.tar:latest"),
    ],
)
def test_names_of_registries(text: str, name: str) -> None:
    found = parse(text)
    assert (found.kind, found.name) == ("registry", name)
    assert parse(found.name).name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("oci:/a/busybox", "oci:/a/busybox"),
        ("oci:/a/busybox:v1", "oci:/a/busybox:v1"),
        ("oci-archive:/a/b.tar:x", "oci-archive:/a/b.tar:x"),
        (
            "docker-archive:/b.tar:docker.io/library/b:1",
            "docker-archive:/b.tar:docker.io/library/b:1",
        ),
        ("dir:/srv/root", "dir:/srv/root"),
        ("tar:/srv/root.tar.xz", "tar:/srv/root.tar.xz"),
        ("aci:/x/app", "aci:/x/app"),
        ("/x/../app.aci", "path:/app.aci"),
        ("file:///app.aci", "path:/app.aci"),
        ("oci://srv/web", "oci:/srv/web"),
        ("oci-archive://srv/b.tar:x", "oci-archive:/srv/b.tar:x"),
        ("dir:///srv//root", "dir:/srv/root"),
        ("//srv/x.tar", "path:/srv/x.tar"),
        ("file:////srv/x.tar", "path:/srv/x.tar"),
        ("dir:/srv/with:colon", "dir:/srv/with:colon"),
    ],
)
def test_files(text: str, name: str) -> None:
    found = parse(text)
    assert (found.name, found.is_local) == (name, True)


@pytest.mark.parametrize("text", ["./x", "x.aci", "sub/x.tar.gz", "oci:x", "dir:x", "."])
def test_relative_paths_are_made_absolute(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse(text).path.startswith(str(tmp_path))


def test_ids() -> None:
    assert (parse(SHA).kind, parse(SHA).digest) == ("id", SHA)
    assert parse("sha256:0123abc").digest == "sha256:0123abc"
    both = parse("0123abcdef01")
    assert (both.kind, both.maybe_id) == ("registry", "sha256:0123abcdef01")
    assert both.name == "docker.io/library/0123abcdef01:latest"
    assert parse("docker://0123abcdef01").maybe_id == ""
    assert parse("busybox").maybe_id == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "invalid image reference"),
        (" busybox", "invalid image reference"),
        ("busy\nbox", "invalid image reference"),
        ("Busybox", "lower case"),
        ("host.org:0/web", 'invalid registry "host.org:0"'),
        ("host.org:65536/web", "invalid registry"),
        ("-host.org/web", "invalid registry"),
        ("busybox:", '"busybox:": invalid tag ""'),
        ("busybox:-1", "invalid tag"),
        ("busybox:" + "a" * 129, "invalid tag"),
        ("busybox@sha256:12", 'invalid digest "sha256:12"'),
        ("busybox@sha512:" + "0" * 128, "invalid digest"),
        ("sha256:12x45", "invalid image id"),
        ("https://example.org/x.aci", 'unsupported URL scheme "https"'),
        ("oci:", "missing path"),
        ("dir:", "missing path"),
        ("a//b", "invalid image name"),
        ("a/../b", "invalid image name"),
        ("docker://", "invalid image name"),
        ("a" * 256, "invalid image name"),
    ],
)
def test_what_is_no_name(text: str, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        parse(text)
