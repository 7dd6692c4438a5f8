"""`mounts add` and `mounts remove` in a container that has moved directories above the target."""

from __future__ import annotations

import pytest

from tests.attacks.exchange import MakeHostile
from tests.support.live_mounts import change, entry, mount_lines
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

TO_SYSCTLS = "mv /a /a2; mkdir /a; ln -s /proc/sys /a/b"
ROOM = entry("/a/b", "tmpfs", "tmpfs", "size=64k")


def test_removal_through_a_link_does_not_uncover_sysctls(container: MakeContainer) -> None:
    """The container moves the mount away, and creates a link to /proc/sys in its place."""
    one = container().started()
    change(one, "add", ROOM).silent()
    before = mount_lines(one)
    one.exec("sh", "-c", TO_SYSCTLS).ok()
    change(one, "remove", ROOM).failed("another mount", "/proc/sys", "/a2/b")
    assert [line.replace(" /a2/b ", " /a/b ") for line in mount_lines(one)] == before
    one.exec("sh", "-c", "rm /a/b; rmdir /a; mv /a2 /a").ok()
    change(one, "remove", ROOM).silent()


def test_undoing_through_a_link_does_not_uncover_sysctls(
    container: MakeContainer, hostile_bundle: MakeHostile
) -> None:
    """The container moves the first mount away before the failure of the second undoes it."""
    made = hostile_bundle("/a", "/other", "/a/b")
    (made.rootfs / "a" / "b").mkdir(parents=True)
    (made.rootfs / "other").mkdir()
    (made.rootfs / "other" / "b").symlink_to("/proc/sys")
    one = container(made).started()
    one.wait_output("ready")
    before = mount_lines(one)
    more = [entry(f"/mnt/{index}", "tmpfs", "tmpfs") for index in range(20)]
    change(one, "add", ROOM, *more, entry("/etc/hostname/below", "tmpfs", "tmpfs")).failed(
        "/etc/hostname/below", "not undone", "another mount", "/other/b"
    )
    after = mount_lines(one)
    assert [line for line in before if line not in after] == []


@pytest.mark.parametrize("way", ["link", "link above"])
def test_removal_of_a_mount_of_config_json_follows_no_link(
    container: MakeContainer, bundle: MakeBundle, way: str
) -> None:
    """Mounts of config.json are not recorded: their destinations must be real paths."""
    made = bundle().mount("/a/b", "tmpfs", "tmpfs", "size=64k")
    one = container(made).started()
    script = TO_SYSCTLS if way == "link" else "mv /a /a2; ln -s /proc /a; true"
    destination = "/a/b" if way == "link" else "/a/sys"
    one.exec("sh", "-c", script).ok()
    before = mount_lines(one)
    change(one, "remove", entry(destination, "", "")).failed("symbolic link")
    assert mount_lines(one) == before


def test_removal_of_another_mount_moved_there(container: MakeContainer, bundle: MakeBundle) -> None:
    """The container moves a mount of config.json to the path of a mount of `mounts add`."""
    made = bundle().mount("/kept/b", "tmpfs", "tmpfs", "size=64k")
    one = container(made).started()
    change(one, "add", ROOM).silent()
    one.exec("sh", "-c", "mv /a /a2; mv /kept /a").ok()
    before = mount_lines(one)
    change(one, "remove", ROOM).failed("another mount", "/a2/b")
    assert mount_lines(one) == before


@pytest.mark.parametrize("place", ["/", "/proc", "/proc/sys"])
def test_nothing_is_added_over_what_confines_the_container(
    container: MakeContainer, place: str
) -> None:
    """A link leads to a path on which mounts are refused."""
    one = container().started()
    one.exec("ln", "-s", place, "/link").ok()
    before = mount_lines(one)
    change(one, "add", entry("/link", "tmpfs", "tmpfs")).failed("symbolic link")
    assert mount_lines(one) == before
