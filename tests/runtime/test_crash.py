"""Commands killed at every point: the next command cleans up.

The leak check of every test detects what is still left at its end.
"""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from tests.support import cgroupfs, leaks, processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import TAG, MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

# Up to well beyond a whole create; which step a moment meets differs from run to run.
MOMENTS = [number * 0.0015 for number in range(28)]


def killed(one: Container, *command: str, after: float) -> bool:
    """Start a command and SIGKILL it; return whether it had exited before."""
    process = one.runtime.popen(*command)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def nothing_of(one: Container) -> list[str]:
    """Return what exists of a container: processes, cgroups, state."""
    processes.reap_orphans()
    found = [processes.describe(pid) for pid in processes.descendants()]
    found += [str(place) for place in cgroupfs.named(one.id)]
    found += [str(path) for path in one.runtime.root.glob(f"*{one.id}*")]
    return found


def gone(one: Container) -> bool:
    """Wait until all of it has vanished; return whether it has."""
    return processes.until(lambda: not nothing_of(one), 5)


@pytest.mark.parametrize("clearing", ["delete", "create"])
def test_create(container: MakeContainer, bundle: MakeBundle, clearing: str) -> None:
    """It is cleaned up by a forced delete, or by the next create of that id."""
    one = container(bundle().save())
    create = ("create", "--bundle", str(one.bundle.path), one.id)
    for moment in MOMENTS:
        whole = killed(one, *create, after=moment)
        if clearing == "create" and not whole:
            again = one.runtime(*create)
            # The create may have been whole already when it was killed.
            assert again.status == 0 or "exists" in again.err, again
        one.runtime("delete", "--force", one.id).silent()
        assert gone(one), (moment, nothing_of(one))


def test_create_with_an_own_parent_cgroup(container: MakeContainer, bundle: MakeBundle) -> None:
    """Parent cgroups are removed as well: nothing else would remove them."""
    one = container(bundle())
    one.bundle.linux["cgroupsPath"] = f"/{TAG}deep/er/{TAG}leaf"
    one.bundle.save()
    for moment in MOMENTS[::3]:
        killed(one, "create", "--bundle", str(one.bundle.path), one.id, after=moment)
        one.runtime("delete", "--force", one.id).silent()
        assert not [place for place in cgroupfs.named(TAG) if place.name == f"{TAG}leaf"], moment
    cgroupfs.remove(cgroupfs.named(f"{TAG}deep"))


def test_start(container: MakeContainer) -> None:
    """The container is created or running afterwards, and can be inspected and deleted."""
    for moment in MOMENTS[::4]:
        one = container().created()
        killed(one, "start", one.id, after=moment / 4)
        assert one.status in {"created", "running"}, moment
        one.delete("--force").silent()
        assert gone(one), (moment, nothing_of(one))


def test_start_can_be_repeated(container: MakeContainer) -> None:
    for moment in MOMENTS[::4]:
        one = container().created()
        if not killed(one, "start", one.id, after=moment / 4):
            again = one.start()
            assert again.status == 0 or one.status == "running", (moment, again)
        assert one.status == "running"
        one.delete("--force").silent()


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_delete(container: MakeContainer, flags: list[str]) -> None:
    for moment in MOMENTS[::4]:
        one = container().created()
        if not flags:
            one.start().silent()
            one.kill("KILL").silent()
            one.wait()
        killed(one, "delete", *flags, one.id, after=moment / 2)
        one.delete("--force").silent()
        assert gone(one), (moment, nothing_of(one))


def test_run(container: MakeContainer, bundle: MakeBundle) -> None:
    """The foreground command is killed; its container is not lost."""
    one = container(bundle().save())
    for moment in MOMENTS[::3]:
        killed(one, "run", "--bundle", str(one.bundle.path), one.id, after=moment)
        one.runtime("delete", "--force", one.id).silent()
        assert gone(one), (moment, nothing_of(one))


def test_mounts_do_not_pile_up(container: MakeContainer, bundle: MakeBundle) -> None:
    """The host has none at any time: they are in the container's own namespace."""
    one = container(bundle().save())
    before = leaks.mount_table()
    process = one.runtime.popen("create", "--bundle", str(one.bundle.path), one.id)
    while process.poll() is None:
        assert leaks.mount_table() == before
        time.sleep(0.0005)
    assert process.returncode == 0
    one.runtime("delete", "--force", one.id).silent()


def test_leftover_of_a_killed_delete_beside_a_new_container(container: MakeContainer) -> None:
    """Stale state is removed, and the new container is deleted as well."""
    one = container().created()
    left = one.runtime.root / f".deleting-{one.id}"
    left.mkdir()
    one.delete("--force").silent()
    assert not left.exists()
    assert gone(one), nothing_of(one)


def test_what_a_killed_delete_has_undone_is_not_undone_again(container: MakeContainer) -> None:
    """Its cgroup was removed before; now it may be another container's."""
    one = container().started()
    left = one.runtime.root / f".deleting-{one.id}"
    left.mkdir()
    shutil.copy(one.runtime.root / one.id / "cgroup.json", left)
    one.delete().failed("not stopped")
    assert not left.exists()
    assert processes.alive(one.pid)
    assert one.status == "running"
