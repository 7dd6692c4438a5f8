"""Validation of an App Container Image's manifest."""

from __future__ import annotations

import re

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.formats.aci import config_of, read_aci_manifest


def labels(version: str) -> list[dict[str, str]]:
    return [{"name": "version", "value": version}]


def manifest(name: str, version: str) -> dict[str, object]:
    return {"acKind": "ImageManifest", "name": name, "labels": labels(version)}


def test_the_version_is_the_tag() -> None:
    read = read_aci_manifest(manifest("example.com/app", "v1.0_a-b"), "it")
    assert read.reference.name == "example.com/app:v1.0_a-b"
    assert read_aci_manifest(manifest("busybox", ""), "it").reference.name.endswith(":latest")


@pytest.mark.parametrize(
    "version", [f"1@sha256:{'0' * 64}", "5000/a:b", "5000/team/web:v1", "@", "-1", "1 ", "a" * 129]
)
@pytest.mark.parametrize("name", ["localhost", "docker.io/library/busybox"])
def test_a_version_that_would_be_more_than_a_tag(name: str, version: str) -> None:
    """A digest, or a port and a path: another image's name."""
    words = f'version: invalid tag "{version}"'
    with pytest.raises(ImageError) as raised:
        read_aci_manifest(manifest(name, version), "it")
    assert words in str(raised.value)
    dependencies = [{"imageName": name, "labels": labels(version)}]
    with pytest.raises(ImageError) as raised:
        read_aci_manifest(manifest("top", "1") | {"dependencies": dependencies}, "it")
    assert words in str(raised.value)


def full(**changes: object) -> dict[str, object]:
    return manifest("example.com/app", "1") | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acKind": "PodManifest"}, "acKind must .* ImageManifest"),
        ({"name": "Has Spaces"}, "invalid name 'Has Spaces'"),
        ({"name": 5}, "invalid name 5"),
        ({"labels": [{"name": "os", "value": "plan9"}]}, 'unsupported os "plan9"'),
        ({"labels": [{"name": "os"}]}, "labels must be .* list of .* with name .* value"),
        ({"labels": ["os"]}, "labels must be .* list of objects"),
        ({"app": []}, None),
        ({"app": [1]}, "app must .* a JSON object"),
        ({"app": {"eventHandlers": [{}]}}, "app.eventHandlers is not supported"),
        ({"pathWhitelist": ["/a", 5]}, "pathWhitelist must .* a list .* paths"),
        ({"dependencies": 5}, "dependencies must be .* list of objects"),
        ({"dependencies": [{"imageName": "A"}]}, "invalid imageName 'A' or imageID ''"),
        ({"dependencies": [{"imageName": "a", "imageID": 5}]}, "invalid imageName 'a' or imageID"),
    ],
)
def test_manifests_that_are_refused(changes: dict[str, object], message: str | None) -> None:
    if message is None:
        assert read_aci_manifest(full(**changes), "it").app == {}
        return
    with pytest.raises(ImageError) as raised:
        read_aci_manifest(full(**changes), "it")
    assert re.search(message, str(raised.value))


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ({"exec": "sh"}, "app.exec must be .* list of strings"),
        ({"exec": ["sh", 5]}, "app.exec must be .* list of strings"),
        ({"user": 0}, "app.user, app.group and app.workingDirectory must be strings"),
        ({"mountPoints": [{"path": "data"}]}, "app.mountPoints: path must .* an absolute path"),
        ({"mountPoints": [{}]}, "app.mountPoints: path must .* an absolute path"),
        ({"environment": [{"name": "A", "value": 5}]}, "environment must be .* list of objects"),
        ({"ports": [{"port": 0, "protocol": "tcp"}]}, "app.ports: invalid port {'port': 0"),
        ({"ports": [{"port": 65535, "count": 2, "protocol": "tcp"}]}, "app.ports: invalid port"),
        ({"ports": [{"port": 1, "count": 2000, "protocol": "tcp"}]}, "app.ports: invalid port"),
        ({"ports": [{"port": 1, "count": 0, "protocol": "tcp"}]}, "app.ports: invalid port"),
        ({"ports": [{"port": 1, "protocol": ["tcp"]}]}, "app.ports: invalid port"),
    ],
)
def test_apps_that_are_refused(app: dict[str, object], message: str) -> None:
    with pytest.raises(ImageError) as raised:
        config_of(read_aci_manifest(full(app=app), "it"), "it")
    assert re.search(message, str(raised.value))


def test_an_architecture_and_a_date() -> None:
    known = [{"name": "arch", "value": "aarch64"}]
    created = [{"name": "created", "value": "2020-01-01T00:00:00Z"}]
    read = read_aci_manifest(full(labels=known, annotations=created), "it")
    about, app = config_of(read, "it")
    assert about == {"os": "linux", "architecture": "arm64", "created": "2020-01-01T00:00:00Z"}
    assert app["Labels"] == {
        "arch": "aarch64",
        "created": "2020-01-01T00:00:00Z",
        "appc.io/name": "example.com/app",
    }
    unknown = read_aci_manifest(full(labels=[{"name": "arch", "value": "vax"}]), "it")
    with pytest.raises(ImageError, match='unsupported arch "vax"'):
        config_of(unknown, "it")


def test_ports_users_and_mounts() -> None:
    app = {
        "exec": ["/bin/web"],
        "user": "1",
        "group": "2",
        "ports": [{"name": "web", "port": 80, "count": 2, "protocol": "tcp"}],
        "mountPoints": [{"name": "data", "path": "/data"}],
        "environment": [{"name": "A", "value": "b"}],
    }
    _, config = config_of(read_aci_manifest(full(app=app), "it"), "it")
    assert config == {
        "Entrypoint": ["/bin/web"],
        "User": "1:2",
        "Env": ["A=b"],
        "ExposedPorts": {"80/tcp": {}, "81/tcp": {}},
        "Volumes": {"/data": {}},
        "Labels": {"version": "1", "appc.io/name": "example.com/app"},
    }
