"""Volumes: propagation in both directions, read-only volumes, and those that cannot be mounted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both, MakePod
from tests.engines.cri.pod import Pod
from tests.support import isolation

PRIVATE, HOST_TO_CONTAINER, BIDIRECTIONAL = 0, 1, 2


@pytest.fixture
def shared(work: Path) -> Iterator[Path]:
    """A directory of the node on a shared mount, like /var/lib/kubelet."""
    place = work / "shared"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    isolation.mount("none", str(place), "", isolation.MS_SHARED)
    (place / "of-node").mkdir()
    (place / "of-container").mkdir()
    yield place
    isolation.unmount(str(place))


def volume(place: Path, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - those of Mount
    return {"container_path": "/volume", "host_path": str(place), **fields}


@pytest.mark.parametrize(
    ("propagation", "appears_inside", "appears_outside"),
    [
        (PRIVATE, False, False),
        (HOST_TO_CONTAINER, True, False),
        (BIDIRECTIONAL, True, True),
    ],
    ids=["None", "HostToContainer", "Bidirectional"],
)
def test_propagation(
    both: Both, shared: Path, propagation: int, appears_inside: bool, appears_outside: bool
) -> None:
    """Mounts of the node appear in the container, or those of the container on the node."""

    def look(pod: Pod) -> tuple[bool, bool]:
        security = {"privileged": True}  # as the kubelet demands for Bidirectional
        mount = volume(shared, propagation=propagation)
        one = pod.run("one", "sleep", "1000", mounts=[mount], security=security)
        isolation.mount("tmpfs", str(shared / "of-node"), "tmpfs")
        try:
            (shared / "of-node/file").touch()
            inside = pod.execute(one, "ls", "/volume/of-node/file")[0] == 0
        finally:
            isolation.unmount(str(shared / "of-node"))
        pod.shell(one, "mount -t tmpfs none /volume/of-container && touch /volume/of-container/x")
        outside = (shared / "of-container/x").exists()
        pod.shell(one, "umount /volume/of-container")
        # It may have to be unmounted on the node, too: propagation is both ways.
        assert not (shared / "of-container/x").exists()
        return inside, outside

    assert both(look, privileged=True) == (appears_inside, appears_outside)


def test_mounts_of_an_ended_container(
    cri_host: Cri, make_pod: MakePod, handler: str, shared: Path
) -> None:
    """Mounts that a CSI driver's container makes on the node outlive it."""
    pod = make_pod(handler, privileged=True)
    mount = volume(shared, propagation=BIDIRECTIONAL)
    one = pod.run("one", "sleep", "1000", mounts=[mount], security={"privileged": True})
    pod.shell(one, "mount -t tmpfs none /volume/of-container && touch /volume/of-container/x")
    cri_host.StopContainer(container_id=one, timeout=0)
    cri_host.RemoveContainer(container_id=one)
    assert (shared / "of-container/x").exists()
    isolation.unmount(str(shared / "of-container"))


def test_bidirectional_needs_a_shared_mount(cri_host: Cri, both: Both, work: Path) -> None:
    place = work / "private"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    isolation.mount("none", str(place), "", isolation.MS_PRIVATE)

    def look(pod: Pod) -> bool:
        mount = volume(place, propagation=BIDIRECTIONAL)
        with pytest.raises(cri_host.Error, match="not a shared mount"):
            pod.create("one", "sleep", "1000", mounts=[mount])
        return True

    both(look)
    isolation.unmount(str(place))


def test_read_only(cri_host: Cri, both: Both, shared: Path) -> None:
    """Read-only volumes, also recursively (recursiveReadOnly) if containerd supports it."""
    isolation.mount("tmpfs", str(shared / "of-node"), "tmpfs")
    kinds = {"plain": {}, "read-only": {"readonly": True}}
    if cri_host.installed.version >= (2, 0):
        kinds["recursive"] = {"readonly": True, "recursive_read_only": True}

    def look(pod: Pod) -> dict[str, list[int]]:
        found = {}
        for kind, fields in kinds.items():
            one = pod.run(kind, "sleep", "1000", mounts=[volume(shared, **fields)])
            places = ("/volume/x", "/volume/of-node/x")
            found[kind] = [pod.execute(one, "touch", place)[0] for place in places]
        return found

    try:
        seen = both(look)
    finally:
        isolation.unmount(str(shared / "of-node"))
    assert seen["plain"] == [0, 0]
    assert seen["read-only"] == [1, 0]
    assert seen.get("recursive", [1, 1]) == [1, 1]


def test_subpath_and_files(both: Both, work: Path) -> None:
    """A file as a volume (subPath), with a new mount point, and a link on the node."""
    (work / "file").write_text("content\n")
    (work / "link").symlink_to("file")
    mounts = [
        {"container_path": "/new/place/file", "host_path": str(work / "file"), "readonly": True},
        {"container_path": "/etc/linked", "host_path": str(work / "link")},
    ]

    def look(pod: Pod) -> list[object]:
        one = pod.run("one", "sleep", "1000", mounts=mounts)
        refused = pod.execute(one, "sh", "-c", "echo >/new/place/file")
        script = "cat /new/place/file /etc/linked; stat -c '%A %u:%g' /new/place /etc/linked"
        return [pod.shell(one, script), refused[0]]

    text, refused = both(look)
    assert text.startswith("content\ncontent\n")
    assert refused == 1
