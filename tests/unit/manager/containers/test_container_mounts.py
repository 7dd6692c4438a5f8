"""The mounts of a new container, from its request, its image and other containers."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import BadRequest, ManagerError, NotFound
from ociruntime.manager.containers.container_mounts import (
    MOST_OF_IMAGE,
    Mounts,
    add_image,
    of_request,
)
from ociruntime.manager.containers.container_names import is_id

OTHER: list[dict[str, Any]] = [
    {"name": "ab" * 32, "target": "/data"},
    {"name": "named", "target": "/named", "read_only": True},
    {"source": "/srv", "target": "/srv/"},
]


def inherit(ref: str) -> tuple[list[dict[str, Any]], list[str]]:
    if ref != "other":
        raise NotFound(f'no container "{ref}"')
    return OTHER, ["ab" * 32]


def mounts(*volumes: dict[str, Any], **spec: Any) -> Mounts:  # noqa: ANN401 - JSON
    return of_request({"volumes": list(volumes), **spec}, inherit)


def test_anonymous_volumes_get_names() -> None:
    found = mounts({"target": "/a", "read_only": True}, {"name": "n", "target": "/b"})
    name = found.volumes[0]["name"]
    assert is_id(name)
    assert found.volumes == [
        {"name": name, "target": "/a", "read_only": True},
        {"name": "n", "target": "/b"},
    ]
    assert (found.generated, found.anonymous) == ([name], [name])
    assert mounts({"target": "/a"}).generated != found.generated


@pytest.mark.parametrize("target", ["/a", "/a/", "//a", "/x/../a"])
def test_two_mounts_at_one_path(target: str) -> None:
    with pytest.raises(BadRequest, match=r"volumes\[1\].target: "):
        mounts({"target": "/a"}, {"name": "n", "target": target})


def test_volumes_of_another_container() -> None:
    found = mounts(volumes_from=[{"container": "other"}])
    assert found.volumes == [
        {"name": "ab" * 32, "target": "/data", "no_copy": True},
        {"name": "named", "target": "/named", "read_only": True, "no_copy": True},
        {"source": "/srv", "target": "/srv/"},
    ]
    assert (found.generated, found.anonymous) == ([], ["ab" * 32])
    assert "no_copy" not in OTHER[0], "the other container's record was changed"
    found = mounts(volumes_from=[{"container": "other", "read_only": True}])
    assert all(one["read_only"] for one in found.volumes)


def test_its_own_mounts_come_before_those_of_others() -> None:
    found = mounts({"name": "n", "target": "/srv"}, volumes_from=[{"container": "other"}] * 2)
    assert [one["target"] for one in found.volumes] == ["/srv", "/data", "/named"]
    assert found.volumes[0]["name"] == "n"
    with pytest.raises(NotFound):
        mounts(volumes_from=[{"container": "nobody"}])


def test_what_an_image_declares() -> None:
    found = mounts({"name": "n", "target": "/a"})
    add_image(found, ["/a", "/b/", "/b"])
    assert [one["target"] for one in found.volumes] == ["/a", "/b"]
    assert found.generated == [found.volumes[1]["name"]]
    found = mounts(tmpfs=[{"target": "/b/"}])
    add_image(found, ["/a", "/b"])
    assert [one["target"] for one in found.volumes] == ["/a"]


@pytest.mark.parametrize("path", ["/a\0b", "a", "", "/", "/..", "/\ud800"])
def test_an_image_with_paths_that_cannot_be_mounted(path: str) -> None:
    with pytest.raises(ManagerError, match="invalid volume: "):
        add_image(Mounts(), [path])


def test_an_image_with_very_many_volumes() -> None:
    """Each would become a directory of the host that stays when the container is removed."""
    with pytest.raises(ManagerError, match="declares 1001 volumes"):
        add_image(Mounts(), [f"/{number}" for number in range(MOST_OF_IMAGE + 1)])
