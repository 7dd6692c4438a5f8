"""Engines with private storage, state and sockets, in the session's own mount namespace.

The runtime below them is ``--runtime``, as for every test: with ``--runtime /usr/sbin/runc``, the
tests themselves are tested.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.containerd import Containerd
from tests.engines.docker import Docker, two_runtimes
from tests.engines.image import NAME, Image
from tests.engines.podman import Podman
from tests.support import rootfs
from tests.support.runtime import Runtime


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Apply the leak check to each test."""


@pytest.fixture(scope="session")
def image(base: Path, programs: dict[str, Path]) -> Image:
    tree = base / "image"
    rootfs.build(tree, programs)
    (tree / "etc/plain").write_text("no program\n")
    return Image(tree)


@pytest.fixture(scope="session")
def overlay(base: Path, isolated: None) -> bool:
    return host.has_overlay(base / "overlay")


@pytest.fixture(scope="session")
def cgroup(isolated: None) -> Iterator[str]:
    """The parent of all containers' cgroups."""
    # A plugin of pytest, which must not be imported before pytest does it.
    from tests.support.plugin import TAG

    with host.parent_cgroup(f"{TAG}-engines") as path:
        yield path


@pytest.fixture(scope="session")
def podman_host(runtime: Runtime, base: Path, image: Image, overlay: bool, cgroup: str) -> Podman:
    """Podman with the image in its storage."""
    program = host.program("podman")
    host.program("conmon")
    driver = "overlay" if overlay else "vfs"
    podman = Podman(program, runtime.path, base / "podman", driver, cgroup)
    image.write_oci_archive(podman.home / "box.tar")
    podman("load", "--input", str(podman.home / "box.tar")).ok()
    podman.tidy()
    return podman


@pytest.fixture
def podman(podman_host: Podman, nothing_left: None) -> Iterator[Podman]:
    """podman; all containers are removed after the test."""
    yield podman_host
    podman_host.tidy()


@pytest.fixture(scope="session")
def sockets(isolated: None) -> None:
    """An empty directory for the sockets of shims and plugins, at their fixed path."""
    for place in ("/run/containerd/runc", "/run/containerd/s", "/run/docker/plugins"):
        Path(place).mkdir(parents=True, exist_ok=True)


@pytest.fixture(scope="module")
def containerd_host(
    runtime: Runtime, base: Path, image: Image, overlay: bool, cgroup: str, sockets: None
) -> Iterator[Containerd]:
    """A running containerd with the image."""
    programs = host.program("containerd"), host.program("ctr", "containerd")
    host.program("containerd-shim-runc-v2", "containerd")
    snapshotter = "overlayfs" if overlay else "native"
    home = Path(tempfile.mkdtemp(prefix="containerd", dir=base))
    home.chmod(0o711)  # containers with a user namespace pass through
    containerd = Containerd(*programs, runtime.path, home, snapshotter, cgroup)
    try:
        image.write_oci_archive(home / "box.tar")
        containerd("image", "import", str(home / "box.tar")).ok()
        yield containerd
    finally:
        containerd.daemon.stop()
        host.unmount_below(home)


@pytest.fixture
def containerd(containerd_host: Containerd, nothing_left: None) -> Iterator[Containerd]:
    """containerd; all containers are removed after the test."""
    yield containerd_host
    containerd_host.tidy()


@pytest.fixture(scope="module")
def docker_host(
    runtime: Runtime, base: Path, image: Image, overlay: bool, cgroup: str, sockets: None
) -> Iterator[Docker]:
    """A running dockerd with the image."""
    programs = host.program("dockerd", "docker.io"), host.program("docker", "docker.io")
    host.program("containerd")
    home = Path(tempfile.mkdtemp(prefix="docker", dir=base))
    config = two_runtimes(home, runtime.path)
    docker = Docker(*programs, config, home, "overlay2" if overlay else "vfs", cgroup)
    try:
        image.write_docker_archive(home / "box.tar")
        docker("load", "--input", str(home / "box.tar")).ok()
        # The first of these mounts the host's network namespace, for good.
        docker.run("--rm", "--network=host", NAME, "true").ok()
        yield docker
    finally:
        docker.daemon.stop()
        host.unmount_below(home)


@pytest.fixture
def docker(docker_host: Docker, nothing_left: None) -> Iterator[Docker]:
    """Docker; all containers are removed after the test."""
    yield docker_host
    docker_host.tidy()
