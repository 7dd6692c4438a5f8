"""The view of cgroup v2 that a mount of type ``cgroup`` gives, according to mountinfo inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import cgroupfs
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.plugin import MakeBundle, MakeContainer

TARGET = "/sys/fs/cgroup"
USUAL = ("nosuid", "noexec", "nodev", "relatime")


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Apply the leak check to each test."""


def shown(bundle: Bundle, *options: str) -> Bundle:
    """Return a script that prints the mount, and tries to create a cgroup in it."""
    bundle.mount(TARGET, "cgroup", "cgroup", *USUAL, *options)
    return bundle.shell(
        f"grep ' {TARGET} ' /proc/self/mountinfo; cat /proc/self/cgroup;"
        f" mkdir {TARGET}/made 2>&1 && echo made && rmdir {TARGET}/made"
    )


class View:
    """The container's output: the mount's root in its filesystem, its options, the rest."""

    def __init__(self, output: str) -> None:
        mount, self.own, self.made = output.splitlines()
        fields, _, tail = mount.partition(" - ")
        self.root, _, options, *_ = fields.split()[3:]
        self.options = set(options.split(","))
        self.fstype = tail.split()[0]


def view(one: Container, *flags: str) -> View:
    return View(one.run(*flags).out)


@pytest.mark.parametrize("user", [False, True], ids=["host's users", "own users"])
@pytest.mark.parametrize("access", ["rw", "ro"])
def test_own_namespace(
    container: MakeContainer, bundle: MakeBundle, access: str, user: bool
) -> None:
    """A new mount, whose root is the container's cgroup."""
    one = bundle().namespace("cgroup")
    if user:
        one.user_namespace()
    found = view(container(shown(one, access)))
    assert (found.fstype, found.root, found.own) == ("cgroup2", "/", "0::/")
    assert found.options == {access, *USUAL}
    assert found.made == "made" if access == "rw" else "Read-only" in found.made


@pytest.mark.parametrize("user", [False, True], ids=["host's users", "own users"])
@pytest.mark.parametrize("access", ["rw", "ro"])
def test_host_s_namespace(
    container: MakeContainer, bundle: MakeBundle, access: str, user: bool
) -> None:
    """The whole hierarchy, of which only its own directory is writable, with the host's paths."""
    one = bundle().without_namespace("cgroup")
    if user:
        one.user_namespace()
    made = container(shown(one, access))
    found = view(made)
    root = f"/{made.id}" if access == "rw" else "/"
    assert (found.fstype, found.root, found.own) == ("cgroup2", root, f"0::/{made.id}")
    assert found.options == {access, *USUAL}
    if access == "ro":
        assert "Read-only" in found.made
    else:  # LNX-CGOWN-04: without a cgroup namespace the host keeps the directory
        assert "Permission denied" in found.made if user else found.made == "made"


def test_privileged_in_the_host_s_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """Engines and systemd inside look for the path from /proc/self/cgroup."""
    host = mount_options()
    script = """
        cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
        grep -qx $$ cgroup.procs && mkdir below && rmdir below && echo made
    """
    one = bundle().without_namespace("cgroup").capabilities("CAP_SYS_ADMIN")
    one.mount(TARGET, "cgroup", "cgroup", *USUAL).shell(script)
    assert container(one).run().ok().out == "made\n"
    assert mount_options() == host


def mount_options() -> str:
    """Return the options of the host's cgroup v2 file system, which all its mounts share."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return next(line for line in lines if " - cgroup2 " in line).rpartition(" ")[2]


@pytest.mark.parametrize("own", [False, True], ids=["host's namespace", "own namespace"])
def test_no_cgroup_of_its_own(container: MakeContainer, bundle: MakeBundle, own: bool) -> None:
    """Its cgroup is the caller's: the root of its view, or below it."""
    one = bundle()
    one.linux.pop("cgroupsPath", None)
    one.linux.pop("resources", None)
    one = one.namespace("cgroup") if own else one.without_namespace("cgroup")
    caller = Path("/proc/self/cgroup").read_text().strip().removeprefix("0::")
    found = view(container(shown(one, "ro")), "--cgroup-manager=disabled")
    assert found.options == {"ro", *USUAL}
    assert (found.root, found.own) == ("/", "0::/" if own else f"0::{caller}")


def test_joined_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """Its root is the other's cgroup; its own cgroup is next to that."""
    first = container(bundle().namespace("cgroup")).started()
    joining = bundle().namespace("cgroup", f"/proc/{first.pid}/ns/cgroup")
    second = container(shown(joining, "ro"))
    found = view(second)
    assert (found.fstype, found.root) == ("cgroup2", "/")
    assert found.own == f"0::/../{second.id}"
    assert found.options == {"ro", *USUAL}


def test_joined_namespace_below_the_other(container: MakeContainer, bundle: MakeBundle) -> None:
    """Its own cgroup is visible."""
    first = container(bundle().namespace("cgroup")).started()
    joining = bundle().namespace("cgroup", f"/proc/{first.pid}/ns/cgroup")
    joining.linux["cgroupsPath"] = f"/{first.id}/second"
    found = view(container(shown(joining)))
    assert (found.root, found.own, found.made) == ("/", "0::/second", "made")
    assert not (cgroupfs.directory(first.pid, "") / "second").exists()
    assert os.path.exists(f"/proc/{first.pid}")
