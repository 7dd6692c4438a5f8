"""Mount propagation between host and container: of a bind mount, of the root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.mounts import mounts_of, seen
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api

MS_SHARED = 1 << 20


@pytest.mark.parametrize(
    ("option", "word"), [("shared", "shared"), ("slave", "master"), ("private", "")]
)
def test_propagation_of_a_mount(
    container: MakeContainer, bundle: MakeBundle, shared: Path, option: str, word: str
) -> None:
    got = mounts_of(container(bundle().bind(shared, "/data", f"r{option}")).created())[
        "/data"
    ].propagation
    assert word in got if word else got == []


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (None, ([], ["master"])),
        ("private", ([],)),
        ("slave", ([], ["master"])),
        ("shared", (["shared"],)),
        ("unbindable", (["unbindable"],)),
    ],
)
@deviates(runc="cannot bind an unbindable root, and leaves a shared one private")
def test_root_propagation(
    container: MakeContainer, bundle: MakeBundle, given: str | None, allowed: tuple[list[str], ...]
) -> None:
    """LNX-PROP-02, A-43."""
    one = bundle()
    if given:
        one.linux["rootfsPropagation"] = given
    assert seen(container, one, "/").propagation in allowed


def test_host_mounts_reach_a_slave(
    container: MakeContainer, bundle: MakeBundle, shared: Path
) -> None:
    (shared / "sub").mkdir()
    one = container(bundle().bind(shared, "/data", "rslave")).created()
    isolation.mount("tmpfs", str(shared / "sub"), "tmpfs")
    assert "/data/sub" in mounts_of(one)
    isolation.unmount(str(shared / "sub"))


@pytest.mark.parametrize("given", [None, "slave", "shared", "rshared"])
@pytest.mark.parametrize("option", [[], ["--no-pivot"]], ids=["pivot", "no pivot"])
def test_container_mounts_do_not_reach_the_host(
    container: MakeContainer,
    bundle: MakeBundle,
    shared: Path,
    given: str | None,
    option: list[str],
) -> None:
    """With the root filesystem on a shared mount; the leak check sees any."""
    one = bundle()
    if given:
        one.linux["rootfsPropagation"] = given
    target = shared / "rootfs"
    subprocess.run(["cp", "-a", one.rootfs, target], check=True)
    one.config["root"]["path"] = str(target)
    one.mount("/scratch", "tmpfs", "t")
    before = Path("/proc/self/mountinfo").read_text()
    made = container(one)
    made.create(*option).silent()
    made.start().silent()
    assert Path("/proc/self/mountinfo").read_text() == before


@deviates(runc="1.1 lets them in")
def test_host_mounts_below_the_root_stay_outside(
    container: MakeContainer, bundle: MakeBundle, shared: Path
) -> None:
    """Without rootfsPropagation, with the root filesystem on a shared mount."""
    one = bundle()
    target = shared / "rootfs"
    subprocess.run(["cp", "-a", one.rootfs, target], check=True)
    (target / "below").mkdir()
    one.config["root"]["path"] = str(target)
    made = container(one).created()
    isolation.mount("tmpfs", str(target / "below"), "tmpfs")
    try:
        assert "/below" not in mounts_of(made)
    finally:
        isolation.unmount(str(target / "below"))


@pytest.mark.parametrize("given", ["shared", "rshared"])
@needs_mount_api("the host's mounts never stay shared without it")
def test_a_shared_bind_carries_mounts_to_the_host(
    container: MakeContainer, bundle: MakeBundle, shared: Path, given: str
) -> None:
    """Kubernetes' mountPropagation: Bidirectional, which CSI drivers need."""
    one = bundle().bind(shared, "/data", "rshared")
    one.linux["rootfsPropagation"] = given
    one.capabilities("CAP_SYS_ADMIN")
    (shared / "sub").mkdir()
    made = container(one).started()
    made.exec("mount", "-t", "tmpfs", "tmpfs", "/data/sub").ok()
    assert os.path.ismount(shared / "sub")
    made.exec("umount", "/data/sub").ok()
    assert not os.path.ismount(shared / "sub")
    isolation.mount("tmpfs", str(shared / "sub"), "tmpfs")
    assert "/data/sub" in mounts_of(made)
    isolation.unmount(str(shared / "sub"))
    assert "/data/sub" not in mounts_of(made)


@pytest.mark.parametrize(("option", "word"), [("private", None), ("unbindable", "unbindable")])
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
@deviates(
    runc="a tmpfs cannot be unbindable below a shared mount",
    crun="unbindable has no effect",
)
def test_propagation_below_a_shared_mount(
    container: MakeContainer,
    bundle: MakeBundle,
    shared: Path,
    kind: str,
    option: str,
    word: str | None,
) -> None:
    """The kernel makes new mounts there shared: the configured value is set later."""
    one = bundle()
    one.mount("/above", "tmpfs", "t", "shared")
    if kind == "tmpfs":
        one.mount("/above/below", "tmpfs", "t", option)
    else:
        one.bind(shared, "/above/below", option)
    mounts = mounts_of(container(one).created())
    assert "shared" in mounts["/above"].propagation
    assert mounts["/above/below"].propagation == ([word] if word else [])
