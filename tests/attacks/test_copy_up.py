"""An image that makes ``tmpcopyup`` exhaust memory."""

from __future__ import annotations

from tests.support.plugin import MakeBundle, MakeContainer

MIB = 1 << 20


def test_huge_directory_meets_the_memory_limit(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """Copy far more than the container's memory limit allows."""
    one = bundle("true")
    (one.rootfs / "data").mkdir()
    with (one.rootfs / "data/huge").open("wb") as file:
        file.truncate(96 * MIB)
    one.mount("/data", "tmpfs", "tmpfs", "tmpcopyup")
    one.resources["memory"] = {"limit": 24 * MIB, "swap": 24 * MIB}
    made = container(one).create()
    assert made.status == 1
    assert "memory" in made.err.lower(), made
