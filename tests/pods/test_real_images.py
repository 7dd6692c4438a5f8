"""Images of other tools, run as pods: pulled from a registry, saved by podman."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pods.test_networks import ASK, PAGE, WEB, detached, end, outside, shell
from tests.support import images, processes
from tests.support.image_peers import docker_registry, needs, run, saved_by_podman
from tests.support.netns import NetworkNamespace
from tests.support.network_host import NetworkHost, namespaces, own_host, page_at
from tests.support.ocipod import Ocipod

__all__ = ("docker_registry", "namespaces", "outside", "own_host")


@pytest.fixture
def built() -> images.BuiltImage:
    """An image whose first layer is busybox."""
    layers = [images.busybox_layer(), images.pack({"srv/page": PAGE, "tmp/.keep": ""})]
    return images.build(layers, {"Cmd": ["/bin/sh"], "ExposedPorts": {"80/tcp": {}}})


def run_two_apps(ocipod: Ocipod, host: NetworkHost, outside: NetworkNamespace, image: str) -> None:
    """Run two apps that talk over localhost, with a forwarded port; check logs and cleanup."""
    uuid = detached(
        ocipod,
        *("--net=default", "--port=80-tcp:8080", image, *WEB),
        *("---", image, "--name=client", *shell(f"{ASK}; sleep 60")),
    )
    logs = ("logs", "--app=client", uuid)
    assert processes.until(lambda: ocipod(*logs).ok().out == PAGE), ocipod(*logs)
    assert page_at(host.namespace, "127.0.0.1", 8080).endswith(f"\r\n\r\n{PAGE}".encode())
    assert page_at(outside, "192.0.2.1", 8080).endswith(f"\r\n\r\n{PAGE}".encode())
    assert ocipod.status(uuid)["state"] == "running"
    end(ocipod, uuid)
    ocipod("rm", uuid).ok()
    host.run("ip", "link", "delete", "out0")
    host.assert_clean()


@needs("docker-registry", "skopeo")
def test_pulled_from_a_registry(
    outside: NetworkNamespace,
    ocipod: Ocipod,
    host: NetworkHost,
    built: images.BuiltImage,
    docker_registry: str,
    work: Path,
) -> None:
    built.write_layout(work / "layout", "v1")
    name = f"{docker_registry}/team/web:v1"
    copy = ("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", "--quiet")
    run(*copy, f"oci:{work}/layout:v1", f"docker://{name}")
    run_two_apps(ocipod, host, outside, name)


@needs("podman")
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive"])
def test_saved_by_podman(
    outside: NetworkNamespace,
    ocipod: Ocipod,
    host: NetworkHost,
    built: images.BuiltImage,
    work: Path,
    kind: str,
) -> None:
    run_two_apps(ocipod, host, outside, f"{kind}:{saved_by_podman(built, work, kind)}")
