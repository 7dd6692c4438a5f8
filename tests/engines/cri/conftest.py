"""A daemon with its CRI plugin, and pods of ociruntime next to pods of runc."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.engines import host
from tests.engines.cri.client import PAUSE, UNPACKED, Cri, Installation, installation, recent
from tests.engines.cri.pod import Pod
from tests.engines.image import Image
from tests.engines.installed import at_its_place
from tests.support import cgroupfs, leaks, processes, rootfs, systemd
from tests.support.runtime import Runtime

HANDLERS = ("ociruntime", "runc")
# For tests that do not compare: `./dev test --all` puts them to the test with runc.
OURS_FIRST = ("ociruntime", pytest.param("runc", marks=pytest.mark.long))
# The ordinary run takes the installation that can do more, or the only one there is.
HAS_RECENT = (UNPACKED / "runc").exists()
INSTALLATIONS = [
    pytest.param("recent"),
    pytest.param("distribution", marks=[pytest.mark.long] if HAS_RECENT else []),
]
Seen = TypeVar("Seen")
MakePod = Callable[..., Pod]
Both = Callable[..., Any]
StartCri = Callable[[], AbstractContextManager[Cri]]


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installed(request: pytest.FixtureRequest, isolated: None) -> Installation:
    """A containerd and its runc."""
    pytest.importorskip("grpc_tools")
    if request.param == "recent":
        found = recent()
        if found is None:
            pytest.skip("no recent containerd (tests/engines/cri/recent unpacks one)")
        return found
    host.program("containerd-shim-runc-v2", "containerd")
    return installation(host.program("containerd"), host.program("runc"))


@pytest.fixture(scope="module")
def parent(cgroup: str) -> Iterator[str]:
    """The pods' parent cgroup: with systemd on cgroup v2 a slice, as the kubelet creates one."""
    # A plugin of pytest, which must not be imported before pytest does it.
    from tests.support.plugin import TAG

    if not (systemd.booted() and cgroupfs.is_v2()):
        yield cgroup
        return
    systemd.show_manager()
    name = f"{TAG}pods.slice"
    systemd.systemctl("start", name)
    yield f"/{name}"
    systemd.systemctl("stop", name)


@pytest.fixture(scope="module")
def start_cri(
    installed: Installation,
    runtime: Runtime,
    base: Path,
    image: Image,
    programs: dict[str, Path],
    overlay: bool,
    parent: str,
    sockets: None,
) -> StartCri:
    """Return a context manager that starts a daemon with the images loaded."""

    @contextmanager
    def start() -> Iterator[Cri]:
        home = Path(tempfile.mkdtemp(prefix="cri", dir=base))
        home.chmod(0o711)  # containers with a user namespace pass through
        rootfs.build(home / "pause", programs)
        with at_its_place(runtime.path):
            programs_of = {"ociruntime": str(runtime.path), "runc": str(installed.runc)}
            driver = "overlayfs" if overlay else "native"
            cri = Cri(installed, home, driver, parent, programs_of)
            try:
                for one in (image, Image(home / "pause", PAUSE, ("sleep", "10000"))):
                    one.write_oci_archive(home / "image.tar")
                    cri.load(home / "image.tar", one.name)
                yield cri
            finally:
                cri.close()
                host.unmount_below(home)

    return start


@pytest.fixture(scope="module")
def cri_host(start_cri: StartCri) -> Iterator[Cri]:
    """A running daemon with the images."""
    with start_cri() as cri:
        yield cri


@pytest.fixture
def node(start_cri: StartCri, nothing_left: None) -> Iterator[Cri]:
    """A separate daemon for a test that restarts it; all its pods are removed."""
    with start_cri() as cri:
        try:
            yield cri
        finally:
            _remove_all(cri)


def _remove_all(cri: Cri) -> None:
    for container in cri.ListContainers().containers:
        cri.RemoveContainer(container_id=container.id)
    for sandbox in cri.ListPodSandbox().items:
        cri.StopPodSandbox(pod_sandbox_id=sandbox.id)
        cri.RemovePodSandbox(pod_sandbox_id=sandbox.id)
    assert processes.until(lambda: not leaks.entries(cri.tasks())), leaks.entries(cri.tasks())


@pytest.fixture(params=OURS_FIRST)
def handler(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make_pod(cri_host: Cri, nothing_left: None) -> Iterator[MakePod]:
    """Create a pod, as in ``make_pod(handler, namespaces=...)``; it is removed after the test."""
    made: list[Pod] = []

    def make(handler: str, **how: Any) -> Pod:  # noqa: ANN401 - as Pod()
        made.append(Pod(cri_host, handler, **how))
        return made[-1]

    yield make
    errors = []
    for pod in reversed(made):
        try:
            pod.remove()
        except (AssertionError, cri_host.Error) as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture
def pod(make_pod: MakePod, handler: str) -> Pod:
    """A sandbox that is ready."""
    return make_pod(handler)


@pytest.fixture(scope="module")
def standing(cri_host: Cri) -> Iterator[dict[str, Pod]]:
    """A pod of each handler, shared by tests without special requirements."""
    pods: list[Pod] = []
    try:
        for name in HANDLERS:
            pods.append(Pod(cri_host, name, name="standing"))
        yield {pod.handler: pod for pod in pods}
    finally:
        for pod in pods:
            pod.remove()


@pytest.fixture
def both(standing: dict[str, Pod], make_pod: MakePod) -> Iterator[Both]:
    """Examine a pod of each runtime; return the result, which must be the same for both.

    ``both(look, **how)`` calls ``look(pod)`` with a pod that is created with the arguments ``how``.
    """

    def compare(look: Callable[[Pod], Seen], **how: Any) -> Seen:  # noqa: ANN401 - as Pod()
        seen = {name: look(make_pod(name, **how) if how else standing[name]) for name in HANDLERS}
        own, judge = seen["ociruntime"], seen["runc"]
        if isinstance(own, dict) and isinstance(judge, dict):
            keys = sorted(own.keys() | judge.keys())
            lines = [
                f"{key}: {own.get(key)!r}, below runc {judge.get(key)!r}"
                for key in keys
                if own.get(key) != judge.get(key)
            ]
            assert not lines, "\n".join(lines)
        assert own == judge
        return own

    yield compare
    for pod in standing.values():
        pod.clear()
