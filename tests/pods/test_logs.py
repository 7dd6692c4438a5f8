"""The log files of apps, and reading them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell

ENTRY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)")


def run(ocipod: Ocipod, image: str, *lines: str) -> str:
    """Return the UUID of a pod whose app ``a`` has exited."""
    ocipod("run", "--net=none", image, "--name=a", *shell(*lines)).ok()
    return ocipod.pods("run")[-1]


def entries(path: Path) -> list[tuple[str, ...]]:
    found = [ENTRY.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found), path.read_text()
    return [match.groups() for match in found if match]


def test_the_file(ocipod: Ocipod, work: Path) -> None:
    uuid = run(
        ocipod, busybox(work), "echo one", "sleep 0.1", "printf half; sleep 0.2", "echo err >&2"
    )
    found = entries(ocipod.path(uuid) / "logs" / "a.log")
    assert [entry for entry in found if entry[0] == "stderr"] == [("stderr", "F", "err")]
    written = [entry for entry in found if entry[0] == "stdout"]
    assert written == [("stdout", "F", "one"), ("stdout", "P", "half")]


def test_reading(ocipod: Ocipod, work: Path) -> None:
    uuid = run(ocipod, busybox(work), "for i in 1 2 3 4; do echo line $i; done", "echo bad >&2")
    done = ocipod("logs", uuid).ok()
    assert (done.out, done.err) == ("line 1\nline 2\nline 3\nline 4\n", "bad\n")
    assert ocipod("logs", "--tail=2", "--stream=stdout", uuid).out == "line 3\nline 4\n"
    assert ocipod("logs", "--stream=stderr", uuid).out == ""
    assert ENTRY.match(
        ocipod("logs", "--timestamps", uuid).out.replace("Z line", "Z stdout F line")
    )
    ocipod("logs", "--app=b", uuid).failed('app "b"', "no such app")
    ocipod("logs", "--tail=-3", uuid).failed("--tail")


def test_a_long_line_in_pieces(ocipod: Ocipod, work: Path) -> None:
    uuid = run(ocipod, busybox(work), "dd if=/dev/zero bs=1000 count=100 2>/dev/null | tr '\\0' x")
    assert {entry[1] for entry in entries(ocipod.path(uuid) / "logs" / "a.log")} == {"P"}
    assert ocipod("logs", uuid).out == "x" * 100_000


def test_files_are_set_aside(ocipod: Ocipod, work: Path) -> None:
    lines = 60_000
    uuid = run(ocipod, busybox(work), f"seq 1000000 {1000000 + lines - 1}")
    path = ocipod.path(uuid) / "logs"
    assert [file.name for file in path.iterdir()] == ["a.log"]
    assert ocipod("logs", uuid).out.split() == [str(1000000 + i) for i in range(lines)]


def test_several_apps_in_order(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    first = "echo 1; sleep 0.3; touch /v/1; until [ -e /v/2 ]; do sleep 0.1; done; echo 3"
    second = "until [ -e /v/1 ]; do sleep 0.1; done; echo 2; sleep 0.3; touch /v/2"
    ocipod(
        *("run", "--net=none", "--volume=v,kind=empty", "--mount=volume=v,target=/v"),
        *(image, "--name=a", *shell(first), "---", image, "--name=b", *shell(second)),
    ).ok()
    (uuid,) = ocipod.pods()
    assert ocipod("logs", uuid).out == "a: 1\nb: 2\na: 3\n"
    assert ocipod("logs", "--app=b", uuid).out == "2\n"


def test_following(ocipod: Ocipod, work: Path) -> None:
    words = ("--detach", "--net=none", busybox(work), "--name=a")
    script = shell("i=0; while [ ! -e /end ]; do i=$((i+1)); echo $i; sleep 0.1; done")
    uuid = ocipod("run", *words, *script).ok().out.strip()
    follower = ocipod.popen("logs", "--follow", uuid, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"1\n"
    ocipod("enter", uuid, "touch", "/end").ok()
    rest = follower.stdout.read().decode()
    assert f"1\n{rest}" == ocipod("logs", uuid).out
    assert follower.wait(30) == 0


def test_a_reader_that_does_not_read_holds_up_nobody(ocipod: Ocipod, work: Path) -> None:
    words = ("run", "--net=none", busybox(work), "--name=a")
    script = shell("seq 1 200000; echo done >/proc/1/comm 2>/dev/null; exec sleep 60")
    process = ocipod.popen(*words, *script, stdout=subprocess.PIPE)
    (uuid,) = ocipod.wait_for_phase("run")
    log = ocipod.path(uuid) / "logs" / "a.log"
    assert processes.until(lambda: log.exists() and b" 200000\n" in log.read_bytes()[-200:], 30)
    process.kill()


def test_following_a_pod_to_which_apps_are_added(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    ocipod("fetch", image).ok()
    uuid = ocipod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    follower = ocipod.popen("logs", "-f", uuid, stdout=subprocess.PIPE)
    assert follower.stdout is not None
    for name in "ab":
        ocipod("app", "add", uuid, image, f"--name={name}", *shell(f"echo from {name}")).ok()
        ocipod("app", "start", uuid, f"--app={name}").ok()
        log = ocipod.path(uuid) / "logs" / f"{name}.log"
        assert processes.until(lambda log=log: b" from " in log.read_bytes())  # type: ignore[misc]
    ocipod("stop", "--wait", uuid).ok()
    assert sorted(line.split()[-1] for line in follower.stdout) == [b"a", b"b"]
