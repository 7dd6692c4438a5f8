"""Device nodes, and the devices that the devices cgroup allows."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer, Probe

DEFAULT = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def device(path: str, kind: str, major: int, minor: int, **more: int) -> dict[str, Any]:
    return {"path": path, "type": kind, "major": major, "minor": minor, **more}


def test_default_devices(probe: Probe) -> None:
    """LNX-DEFDEV-01 and -03, RTL-LINK-01."""
    devices = probe()["devices"]
    for name, numbers in DEFAULT.items():
        assert devices[name]["kind"] == "c", name
        assert (devices[name]["major"], devices[name]["minor"]) == numbers
        assert devices[name]["mode"] == 0o666
    for name, target in LINKS.items():
        assert devices[name]["link"] == target, name


def test_default_devices_in_a_user_namespace(probe: Probe, bundle: MakeBundle) -> None:
    """Without mknod, the host's nodes are bind-mounted."""
    devices = probe(bundle().user_namespace())["devices"]
    for name, numbers in DEFAULT.items():
        assert (devices[name]["major"], devices[name]["minor"]) == numbers


def test_default_devices_work(container: MakeContainer, bundle: MakeBundle) -> None:
    script = """
        echo lost > /dev/null && head -c 4 /dev/zero | od -An -tx1
        head -c 4 /dev/urandom | wc -c; echo x > /dev/full || echo full
    """
    result = container(bundle().shell(script)).run().ok()
    assert result.out.split() == ["00", "00", "00", "00", "4", "full"]


def test_no_device_cgroup_rules_still_supplies_them(probe: Probe, bundle: MakeBundle) -> None:
    one = bundle()
    del one.linux["resources"]
    assert set(DEFAULT) <= set(probe(one)["devices"])


def test_own_devices(probe: Probe, bundle: MakeBundle) -> None:
    """LNX-DEV-01, -02, -06: independent of the umask."""
    one = bundle()
    one.linux["devices"] = [
        device("/dev/own-char", "c", 10, 229, fileMode=0o640, uid=7, gid=8),
        device("/dev/own-unbuffered", "u", 1, 3, fileMode=0o666),
        device("/dev/own-block", "b", 7, 200, fileMode=0o600),
        {"path": "/dev/own-pipe", "type": "p", "fileMode": 0o622},
    ]
    before = os.umask(0o077)
    try:
        devices = probe(one)["devices"]
    finally:
        os.umask(before)
    char = devices["own-char"]
    assert (char["kind"], char["major"], char["minor"]) == ("c", 10, 229)
    assert (char["mode"], char["uid"], char["gid"]) == (0o640, 7, 8)
    assert (devices["own-unbuffered"]["kind"], devices["own-unbuffered"]["minor"]) == ("c", 3)
    assert (devices["own-block"]["kind"], devices["own-block"]["minor"]) == ("b", 200)
    assert (devices["own-pipe"]["kind"], devices["own-pipe"]["mode"]) == ("p", 0o622)


def test_device_outside_of_dev(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-DEV-05: with its parents."""
    one = bundle("stat", "-c", "%F %t:%T", "/opt/deep/null")
    one.linux["devices"] = [device("/opt/deep/null", "c", 1, 3, fileMode=0o666)]
    assert container(one).run().ok().out == "character special file 1:3\n"


def test_matching_node_may_be_there(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("true")
    os.mknod(one.rootfs / "node", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    one.linux["devices"] = [device("/node", "c", 1, 3, fileMode=0o666)]
    container(one).run().silent()


@pytest.mark.parametrize("other", ["file", "numbers"])
@deviates(runc="keeps what is there", crun="keeps what is there")
def test_other_node_in_its_place(container: MakeContainer, bundle: MakeBundle, other: str) -> None:
    """LNX-DEV-03, A-26."""
    one = bundle()
    if other == "file":
        (one.rootfs / "node").write_text("")
    else:
        os.mknod(one.rootfs / "node", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    one.linux["devices"] = [device("/node", "c", 1, 3, fileMode=0o666)]
    container(one).create().failed("/node")


@pytest.mark.parametrize("kind", ["z", ""])
@deviates(crun="takes it for a character device")
def test_unknown_type(container: MakeContainer, bundle: MakeBundle, kind: str) -> None:
    one = bundle()
    one.linux["devices"] = [device("/dev/x", kind, 1, 3)]
    container(one).create().failed()


def with_node(bundle: Bundle) -> Bundle:
    """Add /dev/mem: harmless to open, and not a default device."""
    bundle.linux["devices"] = [device("/dev/mem-node", "c", 1, 12, fileMode=0o666)]
    return bundle.shell("head -c 1 /dev/mem-node >/dev/null && echo opened; true")


def test_deny_all_denies(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-DEV-08: a node that is neither listed nor a default device cannot be opened."""
    one = bundle().capabilities("CAP_MKNOD")
    one.shell("mknod /kmsg c 1 11 && head -c 0 /kmsg && dd if=/kmsg bs=1 count=0 2>&1; true")
    result = container(one).run().ok()
    assert "Operation not permitted" in result.out + result.err


def test_allowed_by_a_rule(container: MakeContainer, bundle: MakeBundle) -> None:
    one = with_node(bundle())
    one.resources["devices"].append(
        {"allow": True, "type": "c", "major": 1, "minor": 12, "access": "rwm"}
    )
    result = container(one).run().ok()
    # Whether the device exists is the kernel's matter: ENXIO is not EPERM.
    assert "not permitted" not in result.err


def harmless_minor() -> int:
    """Return a misc device of this kernel that is not a default device and is harmless to open."""
    for line in Path("/proc/misc").read_text().splitlines():
        minor, name = line.split()
        if name in {"fuse", "btrfs-control", "autofs"}:
            return int(minor)
    pytest.skip("no such device")


def test_read_is_not_write(container: MakeContainer, bundle: MakeBundle) -> None:
    """Access letters count."""
    minor = harmless_minor()
    one = bundle().shell("dd if=/node of=/x count=0 2>/dev/null && echo read; echo w > /node")
    one.linux["devices"] = [device("/node", "c", 10, minor, fileMode=0o666)]
    one.resources["devices"].append(
        {"allow": True, "type": "c", "major": 10, "minor": minor, "access": "r"}
    )
    result = container(one).run()
    assert result.out == "read\n"
    assert result.status == 1
    assert "not permitted" in result.err


def test_denied_first_and_then_allowed_in_part(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """Docker denies fuse, and ``--device /dev/fuse:/node:r`` allows reading it."""
    minor = harmless_minor()
    rule = {"type": "c", "major": 10, "minor": minor}
    one = bundle().shell("dd if=/node of=/x count=0 2>/dev/null && echo read; echo w > /node")
    one.linux["devices"] = [device("/node", "c", 10, minor, fileMode=0o666)]
    one.resources["devices"] += [
        {"allow": False, **rule, "access": "rwm"},
        {"allow": True, **rule, "access": "r"},
    ]
    result = container(one).run()
    assert result.out == "read\n"
    assert "not permitted" in result.err


def test_host_devices_are_untouched(container: MakeContainer, bundle: MakeBundle) -> None:
    before = Path("/dev/null").stat()
    container(bundle("chmod", "600", "/dev/null")).run()
    container(bundle("chmod", "600", "/dev/null").user_namespace()).run()
    after = Path("/dev/null").stat()
    assert (after.st_mode, after.st_uid, after.st_rdev) == (
        before.st_mode,
        before.st_uid,
        before.st_rdev,
    )
