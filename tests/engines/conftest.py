"""Engines with private storage, state and sockets, all in the session's own mount namespace.

The runtime below them is ``--runtime``, as for every test: with ``--runtime /usr/sbin/runc``
the tests themselves are put to the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.image import Image
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
    """Have the watch in each test, asked for or not."""


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
    """Parent of all containers' cgroups."""
    # A plugin of pytest, which must not be imported before pytest does it.
    from tests.support.plugin import TAG

    with host.parent_cgroup(f"{TAG}-engines") as path:
        yield path


@pytest.fixture(scope="session")
def podman_host(runtime: Runtime, base: Path, image: Image, overlay: bool, cgroup: str) -> Podman:
    """Podman that has the image."""
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
    """podman, without any container afterwards."""
    yield podman_host
    podman_host.tidy()
