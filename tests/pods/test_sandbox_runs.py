"""Sandboxes that are prepared first, that exit with their apps, and that are run again."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.pods.sandbox import Sandbox
from tests.pods.test_requests import ask
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell
from tests.support.pod_members import is_free

WORDS = ("app", "sandbox", "--net=none", "--on-exit=halt")
NOW = ("gc", "--grace-period=0s", "--expire-prepared=0s")


def test_a_prepared_sandbox(ocipod: Ocipod) -> None:
    """It has no process, and gc removes it like other prepared pods unless it is kept."""
    uuid = ocipod(*WORDS, "--prepare", "--keep").ok().out.strip()
    other = ocipod(*WORDS, "--prepare").ok().out.strip()
    assert ocipod.state(uuid) == "prepared"
    assert not (ocipod.path(uuid) / "monitor.json").exists()
    ocipod(*NOW).ok()
    assert ocipod.pods() == [uuid] != [other]
    ocipod("run-prepared", "--net=none", uuid).failed("--detach")
    assert ocipod("run-prepared", "--detach", uuid).ok().out == f"{uuid}\n"
    assert ocipod.state(uuid) == "running"
    ocipod("run-prepared", "--detach", uuid).failed('is "running", not "exited"')
    ocipod("stop", "--wait", uuid).ok()


def test_it_ends_with_its_apps_and_runs_again(ocipod: Ocipod, work: Path) -> None:
    sandbox = Sandbox(ocipod, work, "--on-exit=halt")
    sandbox.add("one", "echo line >> /lines", "busybox wc -l < /lines")
    sandbox.start("two", "exec sleep 600")
    sandbox.do("start", "one")
    sandbox.wait("one", "exited")
    assert ocipod.state(sandbox.uuid) == "running"
    sandbox.do("stop", "two")
    ocipod.wait_for(sandbox.uuid, "exited")
    for number in ("2", "3"):
        ocipod("run-prepared", "--detach", sandbox.uuid).ok()
        assert sandbox.states() == {"one": "prepared", "two": "prepared"}
        sandbox.do("start", "one")
        ocipod.wait_for(sandbox.uuid, "exited")
        assert ocipod("logs", sandbox.uuid, "--app=one").ok().out.split()[-1] == number
    ocipod("rm", sandbox.uuid).ok()


def test_a_program_that_cannot_be_executed_ends_it(ocipod: Ocipod, work: Path) -> None:
    sandbox = Sandbox(ocipod, work, "--on-exit=halt")
    words = ("app", "add", sandbox.uuid, sandbox.image, "--name=bad", "--exec=/missing")
    ocipod(*words).ok()
    ocipod("app", "start", sandbox.uuid, "--app=bad").failed("/missing")
    ocipod.wait_for(sandbox.uuid, "exited")
    ocipod("rm", sandbox.uuid).ok()


def test_it_runs_again_after_a_kill(ocipod: Ocipod, work: Path) -> None:
    """Stale state is removed first: mounts, cgroups, the state of its app."""
    sandbox = Sandbox(ocipod, work, "--on-exit=halt")
    sandbox.start("one", "echo here > /kept", "exec sleep 600")
    assert processes.until((ocipod.path(sandbox.uuid) / "apps/one/upper/kept").exists)
    os.kill(ocipod.monitor(sandbox.uuid)["pid"], signal.SIGKILL)
    ocipod.wait_for(sandbox.uuid, "exited")
    before = ocipod.monitor(sandbox.uuid)["pid"]
    assert os.path.lexists(ocipod.path(sandbox.uuid) / "ready")
    words = ("run-prepared", "--detach", sandbox.uuid)
    assert ocipod(*words, fault="monitor.before-record:kill").status != 0
    assert not os.path.lexists(ocipod.path(sandbox.uuid) / "monitor.json")
    ocipod(*words).ok()
    assert ocipod.monitor(sandbox.uuid)["pid"] != before
    sandbox.do("start", "one")
    assert sandbox.states() == {"one": "running"}
    ocipod("stop", "--force", "--wait", sandbox.uuid).ok()
    ocipod("rm", sandbox.uuid).ok()


def test_removed_or_run_again_but_not_both(ocipod: Ocipod) -> None:
    """The first command wins; the other one says so."""
    for _ in range(8):
        uuid = ocipod(*WORDS, "--detach").ok().out.strip()
        ocipod("stop", "--wait", uuid).ok()
        done: list[int] = []
        words = (("rm", uuid), ("run-prepared", "--detach", uuid), ("rm", uuid))
        threads = [
            threading.Thread(target=lambda one=one, done=done: done.append(ocipod(*one).status))
            for one in words
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if ocipod.pods():
            assert ocipod.state(uuid) == "running"
            assert ocipod.pods("run") == [uuid]
            ocipod("stop", "--force", "--wait", uuid).ok()
            ocipod("rm", uuid).ok()
        assert 0 in done
    assert ocipod.pods() == []


def test_not_while_its_files_are_copied(ocipod: Ocipod, work: Path) -> None:
    """The files of an app must not be mounted twice."""
    sandbox = Sandbox(ocipod, work, "--on-exit=halt")
    sandbox.start("one", "exit 0")
    ocipod.wait_for(sandbox.uuid, "exited")
    words = ("app", "copy-in", "--app=one", sandbox.uuid, "/")
    copying = ocipod.popen(*words, stdin=-1)
    try:
        assert processes.until(lambda: not is_free(ocipod.path(sandbox.uuid), fcntl.LOCK_EX))
        ocipod("run-prepared", "--detach", sandbox.uuid).failed("is locked")
        ocipod("rm", sandbox.uuid).failed("is locked")
    finally:
        copying.communicate(timeout=30)
    ocipod("run-prepared", "--detach", sandbox.uuid).ok()
    ocipod("stop", "--wait", sandbox.uuid).ok()


def test_a_reader_that_is_late(ocipod: Ocipod, work: Path) -> None:
    """An attached client gets the last output even after the pod has left its networks."""
    sandbox = Sandbox(ocipod, work, "--on-exit=halt")
    sandbox.add("one", "busybox head -c 600000 /dev/zero", "exit 3")
    attached = ocipod.popen("attach", "--wait", "--app=one", sandbox.uuid, stdout=-1)
    assert processes.until(lambda: "one" in ocipod("app", "list", sandbox.uuid).ok().out)
    processes.until(lambda: False, 0.5)
    sandbox.do("start", "one")
    processes.until(lambda: False, 0.5)
    out, _ = attached.communicate(timeout=60)
    assert (attached.returncode, len(out)) == (3, 600_000)
    ocipod.wait_for(sandbox.uuid, "exited")
    ocipod("rm", sandbox.uuid).ok()


def test_a_request_with_apps(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    ocipod("fetch", image).ok()
    exec_, *arguments = shell("echo hello")
    app = {"image": image, "name": "app", "exec": "/bin/sh", "arguments": arguments[1:]}
    assert exec_.startswith("--exec")
    wanted = {"prepare": True, "net": ["none"], "on_exit": "halt", "apps": [app]}
    uuid = ask(ocipod, json.dumps(wanted).encode(), "app", "sandbox").ok().out.strip()
    ocipod("run-prepared", "--detach", uuid).ok()
    ocipod("app", "start", uuid, "--app=app").ok()
    ocipod.wait_for(uuid, "exited")
    assert ocipod("logs", uuid).ok().out.split()[-1] == "hello"
    ocipod("rm", uuid).ok()


@pytest.mark.parametrize(
    ("apps", "message"),
    [
        ({}, "apps: "),
        ([1], "apps[0]: "),
        ([{"name": "a"}], "apps[0].image: required"),
        ([{"image": "a"}, {"image": "b", "cpu": "x"}], "apps[1].cpu: must be"),
        ([{"image": "nowhere"}], "nowhere"),
    ],
)
def test_requests_that_are_refused(ocipod: Ocipod, apps: object, message: str) -> None:
    wanted = {"prepare": True, "net": ["none"], "apps": apps}
    ask(ocipod, json.dumps(wanted).encode(), "app", "sandbox").failed(message)
    assert ocipod.pods() == []
