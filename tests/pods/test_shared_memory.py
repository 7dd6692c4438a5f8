"""``/dev/shm`` of a pod's apps: one for all of them, the host's with its IPC namespace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, lines, shell

RUNTIMES = ["", *(path for path in [shutil.which("runc", path="/usr/sbin:/usr/bin")] if path)]
HOSTS = Path("/dev/shm")


@pytest.mark.parametrize("users", [(), ("--private-users",)], ids=["host", "private"])
@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda path: Path(path).name or "ociruntime")
def test_the_apps_share_it(
    ocipod: Ocipod, work: Path, runtime: str, users: tuple[str, ...]
) -> None:
    if runtime:
        ocipod.runtime = Path(runtime)
    image = busybox(work)
    wait = "until [ -e /dev/shm/told ]; do sleep 0.05; done"
    done = ocipod(
        *("run", "--net=none", "--shm-size=1M", *users, image, "--name=a", "--user=web"),
        *shell("echo hello > /dev/shm/telling", "mv /dev/shm/telling /dev/shm/told"),
        *("---", image, "--name=b"),
        *shell(wait, "cat /dev/shm/told", "stat -c '%a %u %g' /dev/shm", "mount"),
    ).ok()
    said = lines(done, "b")
    assert said[:2] == ["hello", "1777 0 0"]
    (line,) = [line for line in said if " /dev/shm " in line]
    for option in ("nosuid", "nodev", "noexec", "size=1024k"):
        assert option in line
    assert list((ocipod.path(ocipod.pods()[0]) / "shm").iterdir()) == []


def wait_for_end(ocipod: Ocipod, uuid: str, app: str) -> None:
    assert processes.until(
        lambda: "state=exited" in ocipod("app", "status", f"--app={app}", uuid).out
    )


def test_apps_that_come_later_see_it(ocipod: Ocipod, work: Path) -> None:
    """Including restarted apps; the host has only an empty directory."""
    image = busybox(work)
    ocipod("fetch", image).ok()
    uuid = ocipod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    for name in ("a", "b"):
        words = shell("cat /dev/shm/*; echo $AC_APP_NAME > /dev/shm/$AC_APP_NAME")
        ocipod("app", "add", uuid, image, f"--name={name}", *words).ok()
    log = ocipod.path(uuid) / "logs"
    for name, text in (("a", ""), ("b", "a"), ("a", "b")):
        ocipod("app", "start", f"--app={name}", uuid).ok()
        wait_for_end(ocipod, uuid, name)
        assert (log / f"{name}.log").read_text().endswith(f" {text}\n" if text else "")
    assert list((ocipod.path(uuid) / "shm").iterdir()) == []
    ocipod("stop", "--wait", uuid).ok()


@pytest.mark.parametrize("words", [("--net=none", "--ipc=parent"), ("--flavor=fly",)], ids=str)
def test_the_hosts(ocipod: Ocipod, work: Path, words: tuple[str, ...]) -> None:
    name = f"ocipod-{os.getpid()}"
    (HOSTS / name).write_text("of the host\n")
    try:
        script = shell(f"cat /dev/shm/{name}; echo of the pod > /dev/shm/{name}")
        done = ocipod("run", *words, busybox(work), *script).ok()
        assert lines(done) == ["of the host"]
        assert (HOSTS / name).read_text() == "of the pod\n"
    finally:
        (HOSTS / name).unlink()
    assert not (ocipod.path(ocipod.pods()[0]) / "shm").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shm-size=12",), "--shm-size: 12 is too small"),
        (("--shm-size=much",), '--shm-size: invalid size "much"'),
        (("--shm-size=1M", "--ipc=parent"), "--shm-size and"),
    ],
)
def test_refusals(ocipod: Ocipod, work: Path, words: tuple[str, ...], message: str) -> None:
    ocipod("run", "--net=none", *words, busybox(work)).failed(message)
    ocipod("app", "sandbox", "--net=none", *words).failed(message)
    assert ocipod.pods() == []


def test_a_pod_of_flavour_fly_has_no_size(ocipod: Ocipod, work: Path) -> None:
    done = ocipod("run", "--flavor=fly", "--shm-size=1M", busybox(work), *shell("true")).ok()
    assert "flavour fly: --shm-size" in done.err
