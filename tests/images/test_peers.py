"""Images written by skopeo and podman, and a real registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import images
from tests.support.image_peers import docker_registry, needs, run, saved_by_podman
from tests.support.ocipod import Ocipod

__all__ = ("docker_registry",)


@pytest.fixture
def built() -> images.BuiltImage:
    layers = [images.busybox_layer(), images.pack({"hello": "world"})]
    return images.build(layers, {"Cmd": ["cat", "/hello"]})


@pytest.fixture
def layout(work: Path, built: images.BuiltImage) -> str:
    built.write_layout(work / "layout", "v1")
    return f"oci:{work}/layout:v1"


@needs("docker-registry", "skopeo")
def test_docker_registry(
    ocipod: Ocipod, built: images.BuiltImage, layout: str, docker_registry: str
) -> None:
    """An OCI manifest is unchanged; one of Docker's format has its own id."""
    name = f"{docker_registry}/team/web:v1"
    policy = ("--insecure-policy", "copy", "--dest-tls-verify=false", "--quiet")
    run("skopeo", *policy, "--preserve-digests", layout, f"docker://{name}")
    assert ocipod("fetch", "--full", name).ok().out == f"{built.id}\n"
    assert ocipod("fetch", "--full", name).ok().out == f"{built.id}\n"
    by_digest = f"docker://{name.rpartition(':')[0]}@{built.id}"
    assert ocipod("fetch", "--full", by_digest).ok().out == f"{built.id}\n"
    docker = f"{docker_registry}/team/docker:v1"
    run("skopeo", *policy, "--format=v2s2", layout, f"docker://{docker}")
    digest = run(
        "skopeo", "inspect", "--tls-verify=false", "--format={{.Digest}}", f"docker://{docker}"
    ).strip()
    assert ocipod("fetch", "--full", docker).ok().out == f"{digest}\n"
    missing = f"{docker_registry}/team/web:v2"
    ocipod("fetch", missing).failed("404", "manifest unknown")


@needs("skopeo")
@pytest.mark.parametrize("kind", ["oci", "oci-archive", "docker-archive"])
def test_skopeo_writes_it(
    ocipod: Ocipod, built: images.BuiltImage, layout: str, work: Path, kind: str
) -> None:
    name = "docker.io/library/web:v1"
    run("skopeo", "--insecure-policy", "copy", "--quiet", layout, f"{kind}:{work}/out:{name}")
    found = ocipod("fetch", "--full", f"{kind}:{work}/out:{name}").ok().out.strip()
    assert ocipod("fetch", "--full", f"{work}/out").ok().out.strip() == found
    assert (found == built.id) == (kind != "docker-archive")
    ocipod("fetch", f"{kind}:{work}/out:other").failed("available: ", "web:v1")


@needs("podman")
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive", "oci-dir"])
def test_podman_saves_it(ocipod: Ocipod, built: images.BuiltImage, work: Path, kind: str) -> None:
    out = saved_by_podman(built, work, kind)
    found = ocipod("fetch", "--full", str(out)).ok().out
    prefix = "oci" if kind == "oci-dir" else kind
    assert ocipod("fetch", "--full", f"{prefix}:{out}").ok().out == found
    assert ocipod("fetch", "--full", "--pull-policy=never", f"{prefix}:{out}").ok().out == found
