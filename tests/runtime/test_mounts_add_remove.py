"""`mounts add` and `mounts remove` in a running container: all mounts or none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.container import Container
from tests.support.live_mounts import change, entry, mount_lines, mounted
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import lacking, needs_mount_api
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")
JOINED_MOUNTS = needs_mount_api("mounts in a joined mount namespace")


@pytest.fixture
def shared(work: Path) -> Path:
    (work / "shared").mkdir()
    (work / "shared" / "words").write_text("of the host\n")
    (work / "shared").chmod(0o755)
    return work / "shared"


@pytest.mark.parametrize("kind", ["ordinary", "user", "moved", "created"])
@JOINED_MOUNTS
def test_added_and_removed(
    container: MakeContainer, bundle: MakeBundle, shared: Path, kind: str
) -> None:
    made = bundle()
    if kind == "user":
        made.user_namespace()
    one = container(made)
    if kind == "created":
        one.created()
    else:
        one.started(*(["--no-pivot"] if kind == "moved" else []))
    before = mounted(one)
    mounts = (
        entry("/mnt/shared", "bind", shared, "rbind", "ro"),
        entry("/mnt/words", "bind", shared / "words", "bind"),
        entry("/mnt/room", "tmpfs", "tmpfs", "size=64k", "mode=0700"),
    )
    change(one, "add", *mounts).silent()
    script = (
        "cat /mnt/shared/words /mnt/words; touch /mnt/shared/new; touch /mnt/room/new;"
        "stat -c '%u %a' /mnt/room"
    )
    done = one.exec("sh", "-c", script)
    assert done.out == "of the host\nof the host\n0 700\n", done
    assert done.err.count("Read-only file system") == 1
    assert "/mnt/room" not in Path("/proc/self/mountinfo").read_text()
    change(one, "remove", *mounts).silent()
    assert mounted(one) == before


@JOINED_MOUNTS
def test_all_or_nothing(container: MakeContainer, shared: Path) -> None:
    one = container().started()
    before = mounted(one)
    done = change(
        one,
        "add",
        entry("/mnt/shared", "bind", shared, "rbind"),
        entry("/mnt/room", "tmpfs", "tmpfs"),
        entry("/etc/hostname/below", "tmpfs", "tmpfs"),
        entry("/mnt/never", "tmpfs", "tmpfs"),
    )
    done.failed("mounts[2]")
    assert mounted(one) == before


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (entry("/", "tmpfs", "tmpfs"), "mounts[0].destination"),
        (entry("/proc", "proc", "proc"), "mounts[0].destination"),
        (entry("/proc/kcore", "tmpfs", "tmpfs"), "inside /proc"),
        (entry("/mnt", "proc", "proc"), "pid namespace"),
        (entry("/mnt", "cgroup2", "cgroup2"), "running container"),
        (entry("/dev", "tmpfs", "tmpfs", "remount", "ro"), "cannot be remounted"),
        (entry("/mnt", "bind", "/none/such", "bind"), "/none/such"),
        (entry("/mnt", "tmpfs", "tmpfs", "roo"), "unknown option"),
        (entry("/mnt", "tmpfs", "tmpfs", "tmpcopyup"), "tmpcopyup"),
        ({"destination": 3}, "mounts[0].destination"),
    ],
)
def test_refused(container: MakeContainer, mount: dict[str, Any], words: str) -> None:
    one = container().started()
    before = mounted(one)
    change(one, "add", mount).failed(words)
    assert mounted(one) == before


@pytest.mark.parametrize(("kind", "options"), [("tmpfs", ()), ("bind", ("bind",))])
def test_refused_without_the_mount_api(
    container: MakeContainer,
    runtime: Runtime,
    work: Path,
    shared: Path,
    kind: str,
    options: tuple[str, ...],
) -> None:
    """The source is not looked up in the container either."""
    one = container().started()
    before = mounted(one)
    one.runtime = lacking(runtime, work, "5.1")
    change(one, "add", entry("/mnt", kind, shared, *options)).failed("mounts[0]", "mount API")
    one.runtime = runtime
    assert mounted(one) == before


@JOINED_MOUNTS
def test_target_is_resolved_inside(
    container: MakeContainer, bundle: MakeBundle, shared: Path
) -> None:
    """A link of the container that leads outside ends in its root."""
    one = container(bundle().shell("ln -s ../../../../var/tmp/inside /escape; sleep 100")).started()
    one.exec("sh", "-c", "while ! test -L /escape; do sleep 0.1; done").ok()
    change(one, "add", entry("/escape", "bind", shared, "bind")).silent()
    assert "/var/tmp/inside" in mounted(one)
    assert not Path("/var/tmp/inside").exists()
    change(one, "remove", entry("/escape", "", "")).silent()
    assert "/var/tmp/inside" not in mounted(one)


def test_nothing_to_remove(container: MakeContainer) -> None:
    one = container().started()
    change(one, "remove", entry("/bin", "", "")).failed("mounts[0]", "nothing is mounted")
    change(one, "remove", entry("/proc/kcore", "", "")).failed("inside /proc")


def test_host_s_mount_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle().without_namespace("mount")
    made.config["mounts"] = []
    made.linux.pop("maskedPaths")
    made.linux.pop("readonlyPaths")
    one = container(made).started()
    change(one, "add", entry("/mnt", "tmpfs", "tmpfs")).failed("no mount namespace")


def test_stopped_and_unknown(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    one = container(bundle("true")).started()
    one.wait()
    change(one, "add", entry("/mnt", "tmpfs", "tmpfs")).failed("not running")
    one.runtime("mounts", "add", "none-such", os.devnull).failed()
    one.runtime("mounts", "list", one.id, os.devnull).failed("mounts: unknown action")


def record(one: Container) -> list[list[Any]]:
    """Return the lines of mounts.json."""
    file = one.runtime.root / one.id / "mounts.json"
    lines: list[list[Any]] = json.loads(file.read_text())
    return lines


@JOINED_MOUNTS
def test_the_record_holds_what_is_mounted(container: MakeContainer) -> None:
    """Lines of mounts that no longer exist are removed."""
    one = container().started()
    first, second = entry("/mnt/a", "tmpfs", "tmpfs"), entry("/mnt/b", "tmpfs", "tmpfs")
    change(one, "add", first).silent()
    numbers = {int(line.split()[0]) for line in mount_lines(one)}
    ((destination, number, _),) = record(one)
    assert destination == "/mnt/a"
    assert number in numbers
    file = one.runtime.root / one.id / "mounts.json"
    file.write_text(json.dumps([["/mnt/b", max(numbers) + 1000, 0], *record(one)]))
    change(one, "add", second).silent()
    assert [line[0] for line in record(one)] == ["/mnt/a", "/mnt/b"]
    change(one, "remove", first, second).silent()
    assert record(one) == []


@JOINED_MOUNTS
def test_stacked_mounts_are_removed_one_by_one(container: MakeContainer) -> None:
    one = container().started()
    before = mounted(one)
    mount = entry("/mnt", "tmpfs", "tmpfs")
    change(one, "add", mount, mount).silent()
    change(one, "remove", mount).silent()
    assert mounted(one) == [*before, "/mnt"]
    change(one, "remove", mount).silent()
    assert mounted(one) == before


@JOINED_MOUNTS
def test_containers_without_a_record(container: MakeContainer, bundle: MakeBundle) -> None:
    """Mounts of config.json, and of older versions, have none."""
    one = container(bundle().mount("/data", "tmpfs", "tmpfs")).started()
    change(one, "add", entry("/mnt/a", "tmpfs", "tmpfs")).silent()
    (one.runtime.root / one.id / "mounts.json").unlink()
    change(one, "remove", entry("/mnt/a", "", ""), entry("/data", "", "")).silent()
    assert not {"/mnt/a", "/data"} & set(mounted(one))
