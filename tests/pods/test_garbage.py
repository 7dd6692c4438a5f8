"""gc and rm on pods in each state, alone and concurrently."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time

import pytest

from tests.pods import stubs
from tests.support import processes
from tests.support.ocipod import Ocipod

NOW = ("gc", "--grace-period=0s")


def test_a_maker_that_was_killed(ocipod: Ocipod) -> None:
    died = stubs.finish(ocipod, stubs.start(ocipod, "run", fault="prepare.after-render:kill"))
    assert died.status == -signal.SIGKILL
    (uuid,) = ocipod.pods("prepare")
    assert ocipod.state(uuid) == "aborted prepare"
    done = ocipod("gc").ok()
    assert done.out == f'Garbage collecting pod "{uuid}"\n'
    moved, freed = done.err.splitlines()
    assert moved == f'moving pod "{uuid}" to garbage'
    assert re.fullmatch(r"1 pod removed, [1-9]\S* kB freed", freed)
    assert ocipod.pods() == []


def test_an_embryo_is_collected_after_the_grace_period(ocipod: Ocipod) -> None:
    stubs.finish(ocipod, stubs.start(ocipod, "run", fault="newpod.after-mkdir:kill"))
    (uuid,) = ocipod.pods("embryo")
    assert ocipod.state(uuid) == "embryo"
    ocipod("rm", uuid).failed('is "embryo"')
    ocipod("gc").silent()
    assert ocipod.pods("embryo") == [uuid]
    ocipod(*NOW).ok()
    assert ocipod.pods() == []


def test_marked_first_swept_later(ocipod: Ocipod) -> None:
    uuid = stubs.exited(ocipod, 7)
    prepared = stubs.prepared(ocipod)
    first = ocipod("gc", "--grace-period=60s").ok()
    assert first.err.startswith(f'moving pod "{uuid}" to garbage\n')
    changed = ocipod.path(uuid).stat().st_ctime
    status = ocipod.status(uuid)
    assert (status["state"], status["app-stub"]) == ("exited garbage", "7")
    second = ocipod("gc", "--grace-period=60s").ok()
    assert (second.out, "grace period" in second.err) == ("", True)
    ocipod("list", "--full").ok()
    ocipod("cat-manifest", uuid).ok()
    assert ocipod.path(uuid).stat().st_ctime == changed, "something was written into it"
    time.sleep(max(0, changed + 2.1 - time.time()))
    assert ocipod("gc", "--grace-period=2s").ok().out == f'Garbage collecting pod "{uuid}"\n'
    assert ocipod.pods() == [prepared]


def test_mark_only_expires_nothing(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    ocipod(*NOW, "--mark-only", "--expire-prepared=0s").silent()
    assert ocipod.phase(uuid) == "prepared"
    ocipod(*NOW).silent()
    assert ocipod.phase(uuid) == "prepared"
    ocipod(*NOW, "--expire-prepared=0s").ok()
    assert ocipod.pods() == []


@pytest.mark.parametrize("round", [1, 2])
def test_many_collectors_at_once(ocipod: Ocipod, round: int) -> None:
    """Exactly one reports the collection of each pod, and none fails because of another."""
    uuids = stubs.many_exited(ocipod, 30)
    assert ocipod.pods("run") == uuids
    collected = []
    for result in ocipod.together(*[NOW] * 8):
        result.ok()
        for word in ("rename", "Traceback", "not removed"):
            assert word not in result.err
        collected += [line.split('"')[1] for line in result.out.splitlines()]
    assert sorted(collected) == uuids
    assert ocipod.pods() == []
    ocipod(*NOW).silent()


def test_what_is_looked_at_is_passed_over(ocipod: Ocipod) -> None:
    uuid = stubs.exited(ocipod)
    ocipod("gc").ok()
    fd = os.open(ocipod.path(uuid), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    ocipod(*NOW).silent()
    began = time.monotonic()
    ocipod("rm", uuid).failed("is locked")
    assert time.monotonic() - began >= 1
    fcntl.flock(fd, fcntl.LOCK_EX)
    ocipod("rm", uuid).failed("is being deleted by another process")
    assert ocipod.state(uuid) == "exited deleting"
    os.close(fd)
    collected = ocipod(*NOW).ok()
    assert collected.out == f'Garbage collecting pod "{uuid}"\n'
    assert re.search(r"^1 pod removed, [1-9]\S* kB freed$", collected.err, re.MULTILINE)


def test_rm(ocipod: Ocipod) -> None:
    done, waiting = stubs.exited(ocipod), stubs.prepared(ocipod)
    busy, process = stubs.running(ocipod)
    result = ocipod("rm", done, busy, waiting)
    assert result.status == 254
    assert result.out == f'"{done}"\n"{waiting}"\n'
    assert f'remove pod {busy}: its state is "running" (stop it first)' in result.err
    assert ocipod.pods() == [busy]
    stubs.finish(ocipod, process).ok()
    file = ocipod.directory / "uuid"
    file.write_text(f"{busy}\n")
    assert ocipod("rm", f"--uuid-file={file}").ok().out == f'"{busy}"\n'
    ocipod("rm", busy).failed("not found")
    ocipod("rm").failed("a pod is")
    ocipod("rm", busy, f"--uuid-file={file}").failed("cannot be combined")


def test_rm_of_what_is_being_prepared(ocipod: Ocipod) -> None:
    maker = stubs.start(ocipod, "prepare", fault="prepare.after-render:stop")
    assert stubs.stopped(maker)
    (uuid,) = ocipod.pods("prepare")
    ocipod("rm", uuid).failed('is "preparing"')
    ocipod(*NOW).silent()
    maker.send_signal(signal.SIGCONT)
    stubs.finish(ocipod, maker).ok()
    assert ocipod.state(uuid) == "prepared"


def test_expiry_leaves_what_is_about_to_run(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    runner = stubs.start(ocipod, "run-prepared", uuid, fault="runprepared.after-lock:stop")
    assert stubs.stopped(runner)
    ocipod("gc", "--expire-prepared=0s").silent()
    assert ocipod.phase(uuid) == "prepared"
    runner.send_signal(signal.SIGCONT)
    assert processes.until(lambda: ocipod.phase(uuid) == "run")
    stubs.finish(ocipod, runner).ok()
    assert ocipod.state(uuid) == "exited"


def test_what_expires_is_not_run(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    collector = ocipod.popen("gc", "--expire-prepared=0s", fault="gc.expire.after-lock:stop")
    assert stubs.stopped(collector)
    runner = stubs.finish(ocipod, stubs.start(ocipod, "run-prepared", uuid))
    assert (runner.status, "is locked" in runner.err) == (254, True)
    assert ocipod.phase(uuid) == "prepared"
    collector.send_signal(signal.SIGCONT)
    assert collector.wait(20) == 0
    assert ocipod.pods() == []


def test_one_of_many_runs_it(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    winner, process = stubs.running(ocipod, "run-prepared", uuid, "3")
    assert winner == uuid
    others = [stubs.start(ocipod, "run-prepared", uuid) for _ in range(8)]
    for other in others:
        loser = stubs.finish(ocipod, other)
        assert loser.status == 254
        assert f'run pod {uuid}: its state is "running"' in loser.err
    stubs.finish(ocipod, process).ok()
    assert ocipod.status(uuid)["app-stub"] == "3"
    loser = stubs.finish(ocipod, stubs.start(ocipod, "run-prepared", uuid[:8]))
    assert (loser.status, 'state is "exited"' in loser.err) == (254, True)


def test_a_pod_that_is_to_be_kept(ocipod: Ocipod) -> None:
    """It is kept while running and after a kill, until it is removed by name."""
    uuid = ocipod("app", "sandbox", "--detach", "--keep", "--net=none").ok().out.strip()
    other = ocipod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    ocipod(*NOW).ok()
    assert sorted(ocipod.pods("run")) == sorted([uuid, other])
    os.kill(ocipod.monitor(uuid)["pid"], signal.SIGKILL)
    ocipod("stop", "--force", "--wait", other).ok()
    ocipod.wait_for(uuid, "exited")
    done = ocipod(*NOW).ok()
    assert other in done.out
    assert uuid not in done.out + done.err
    assert ocipod.state(uuid) == "exited"
    assert ocipod("rm", uuid).ok().out == f'"{uuid}"\n'
    assert ocipod.pods() == []
