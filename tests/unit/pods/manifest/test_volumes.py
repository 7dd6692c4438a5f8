"""The owners of the pod's volumes."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.pods.bundle.copy_tree import owner_on_host
from ociruntime.pods.manifest.app_names import is_name, volume_of_path
from ociruntime.pods.manifest.user_ids import PRIVATE_IDS
from ociruntime.pods.manifest.volumes import check_owners, volume

LAST = (1 << 32) - 2


def test_the_last_id() -> None:
    made = volume(f"v,kind=empty,uid={LAST},gid={LAST}")
    assert (made["uid"], made["gid"]) == (LAST, LAST)


@pytest.mark.parametrize("member", ["uid", "gid"])
def test_an_owner_that_is_none_of_the_pods(member: str) -> None:
    last = volume(f"v,kind=empty,{member}={PRIVATE_IDS - 1}")
    check_owners([{"name": "other", "kind": "host"}, last], PRIVATE_IDS)
    text = f'volume "v": {member} 65536 '
    with pytest.raises(UsageError, match=text):
        check_owners([last, volume(f"v,kind=empty,{member}={PRIVATE_IDS}")], PRIVATE_IDS)


def test_owners_of_an_images_files() -> None:
    assert owner_on_host(LAST, None) == LAST
    users = (7 * PRIVATE_IDS, PRIVATE_IDS)
    for id, shown in (
        (0, 0),
        (PRIVATE_IDS - 1, PRIVATE_IDS - 1),
        (PRIVATE_IDS, 65534),
        (LAST, 65534),
    ):
        assert owner_on_host(id, users) == 7 * PRIVATE_IDS + shown


@pytest.mark.parametrize("mode", ["0", "755", "0755", "7777", "000000000644"])
def test_modes(mode: str) -> None:
    assert volume(f"v,kind=empty,mode={mode}")["mode"] == mode


def test_name_of_a_long_path() -> None:
    """It is a file's name, with room for a suffix."""
    name = volume_of_path("/a" * 2000)
    assert is_name(name)
    assert len(name) <= 200
