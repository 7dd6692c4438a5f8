"""podman and Docker with the files of packaging/engines, installed like an administrator does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import host
from tests.engines.docker import Docker
from tests.engines.image import NAME, Image
from tests.engines.installed import PLACE, SNIPPETS, at_its_place
from tests.engines.podman import CONTAINERS_CONF, Podman
from tests.support import isolation
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")


@pytest.fixture(scope="module")
def installed(runtime: Runtime) -> Iterator[None]:
    with at_its_place(runtime.path):
        yield


@pytest.fixture
def configured(podman: Podman, installed: None) -> Iterator[Podman]:
    """Podman with the configuration in /etc/containers and no settings of the tests."""
    etc = Path("/etc/containers")
    lines = CONTAINERS_CONF.format(home=podman.home, name="-", runtime="-").splitlines()
    places = [line for line in lines if not line.startswith(("runtime", "[engine.runtimes", "-"))]
    isolation.mount("none", str(etc), "tmpfs", data="mode=755")
    before = podman.env.pop("CONTAINERS_CONF")
    try:
        shutil.copy(podman.home / ".config/containers/policy.json", etc)
        (etc / "containers.conf").write_text("\n".join(places))
        (etc / "containers.conf.d").mkdir()
        shutil.copy(SNIPPETS / "podman.conf", etc / "containers.conf.d/50-ociruntime.conf")
        yield podman
    finally:
        podman.env["CONTAINERS_CONF"] = before
        podman.tidy()
        isolation.unmount(str(etc))


def test_podman(configured: Podman) -> None:
    """It is the default runtime; podman reads its log, and knows that it works without cgroups."""
    assert configured("info", "--format", "{{.Host.OCIRuntime.Path}}").ok().out == f"{PLACE}\n"
    result = configured.run("--rm", NAME, "no-such-program")
    assert result.status == 127
    assert "level=" not in result.err, "podman did not understand the log"
    words = ("run", "--rm", "--network=none", "--cgroups=disabled", "--cgroupns=host")
    same = configured(*words, NAME, "cat", "/proc/self/cgroup").ok().out
    assert same == Path("/proc/self/cgroup").read_text()


@pytest.fixture(scope="module")
def docker(
    installed: None, base: Path, image: Image, overlay: bool, cgroup: str, sockets: None
) -> Iterator[Docker]:
    """The unmodified file; all other settings are on dockerd's command line."""
    programs = host.program("dockerd", "docker.io"), host.program("docker", "docker.io")
    home = base / "configured"
    home.mkdir()
    driver = "overlay2" if overlay else "vfs"
    docker = Docker(*programs, SNIPPETS / "docker.json", home, driver, cgroup)
    try:
        image.write_docker_archive(home / "box.tar")
        docker("load", "--input", str(home / "box.tar")).ok()
        yield docker
    finally:
        docker.daemon.stop()
        host.unmount_below(home)


def test_docker(docker: Docker, nothing_left: None) -> None:
    assert docker("info", "--format", "{{.DefaultRuntime}}").ok().out == "ociruntime\n"
    docker.background("one", NAME, "sleep", "100")
    assert docker("exec", "one", "echo", "ran").ok().out == "ran\n"
    assert docker.inspect("one", ".HostConfig.Runtime") == "ociruntime"
    docker.tidy()
