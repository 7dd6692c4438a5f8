"""Pods on each runtime, which is called only by its command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pods.endings import ending, start, state, wait_until_up
from tests.support import peers
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, lines, shell


@pytest.fixture(params=["ociruntime", "runc", "crun"])
def pods(request: pytest.FixtureRequest, ocipod: Ocipod) -> Ocipod:
    """``ocipod`` with that runtime, if it can run a container here."""
    if request.param != "ociruntime":
        reason = peers.refusal(request.param)
        if reason:
            pytest.skip(reason)
        ocipod.runtime = peers.program(request.param)
    return ocipod


@pytest.mark.parametrize("words", [(), ("--private-users",)], ids=["plain", "private users"])
def test_running(pods: Ocipod, work: Path, words: tuple[str, ...]) -> None:
    done = pods("run", "--net=none", *words, busybox(work), *shell("id -u", "exit 4"))
    assert (done.status, lines(done)) == (4, ["0"])


def test_the_first_failure_halts_the_others(pods: Ocipod, work: Path) -> None:
    image = busybox(work)
    done = pods(
        *("run", "--net=none", "--volume=v,kind=empty", "--mount=volume=v,target=/v"),
        *(image, "--name=a", *shell("until [ -e /v/b -a -e /v/c ]; do sleep 0.05; done; exit 5")),
        *("---", image, "--name=b"),
        *shell("trap 'exit 0' TERM", "touch /v/b", "sleep 60 & wait"),
        *("---", image, "--name=c", *shell("touch /v/c", "exec sleep 60")),
    )
    (uuid,) = pods.pods()
    assert done.status == 5, done
    ended = {"code": 5, "reason": "app a ended with 5", "clean": True}
    assert ending(pods, uuid) == ended
    assert [state(pods, uuid, name)["exit_code"] for name in "abc"] == [5, 0, 143]
    assert [state(pods, uuid, name)["stopped_by"] for name in "abc"] == [None, "halt", "halt"]
    assert not (pods.path(uuid) / "ready").is_symlink()
    assert not (pods.path(uuid) / "ctl").exists()


def test_programs_that_cannot_be_executed(pods: Ocipod, work: Path) -> None:
    for program, code in (("/nope", 127), ("/etc/passwd", 126), ("/bin", 126)):
        done = pods("run", "--net=none", busybox(work), "--name=a", f"--exec={program}")
        assert done.status == code, done
        assert program in done.err
        failed = pods("run", "--detach", "--net=none", busybox(work), f"--exec={program}")
        assert program in failed.failed().err
    written = [pods("logs", uuid).err for uuid in pods.pods()]
    assert sum("/nope" in text for text in written) == 2


def test_entering(pods: Ocipod, work: Path) -> None:
    uuid = start(pods, work, "exec sleep 60")
    done = pods("enter", uuid, "sh", "-c", "echo $AC_APP_NAME; exit 9")
    assert (done.status, done.out) == (9, "a\n")
    words = ("--user=33:34", "--cwd=/data", "--env=X=1 2", "--", "sh", "-c", "id -u; pwd; echo $X")
    assert pods("app", "exec", uuid, *words).ok().out == "33\n/data\n1 2\n"
    pods("enter", "--app=b", uuid).failed('no app "b"', "a")


def test_stopping(pods: Ocipod, work: Path) -> None:
    script = "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done"
    uuid = start(pods, work, "exec sleep 60", script)
    wait_until_up(pods, uuid, "b")
    assert pods("stop", "--wait", uuid[:8]).ok().out == f'"{uuid}"\n'
    assert ending(pods, uuid)["code"] == 0
    assert [state(pods, uuid, name)["exit_code"] for name in "ab"] == [143, 3]
    assert state(pods, uuid, "b")["stopped_by"] == "pod stop"
    assert pods("stop", uuid).ok().out == f'pod "{uuid}" is already stopped\n'
