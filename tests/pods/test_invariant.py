"""A pod's lock is never free while a process of the pod is alive, whichever process is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.images import make_layout
from tests.support.ocipod import Ocipod
from tests.support.pod_members import (
    children,
    command_line,
    is_alive,
    is_free,
    living,
    pid_namespace,
)

VICTIMS = ("monitor", "lock holder", "init", "app", "runtime", "monitor while it creates")
# Daemons of their own sessions that have let go of everything they were given.
APP = (
    "for i in 1 2 3 4 5 6 7 8; do setsid sleep 100 </dev/null >/dev/null 2>&1 & done; "
    "trap : TERM; while :; do sleep 100 & wait; done"
)
SECONDS = 20


class Watched:
    """A pod that has just started, and its processes."""

    def __init__(self, ocipod: Ocipod, image: str, *options: str) -> None:
        before = set(ocipod.pods("run"))
        words = (*options, "--net=none", image, "--name=a", "--exec", "/bin/sh", "--", "-c", APP)
        self.process = ocipod.popen("run", *words)
        found: set[str] = set()

        def there() -> bool:
            found.update(set(ocipod.pods("run")) - before)
            return bool(found)

        assert processes.until(there, SECONDS)
        self.uuid = found.pop()
        self.path = ocipod.path(self.uuid)
        self.namespace = ""

    def wait(self, there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not there():
            assert time.monotonic() < deadline, f"{what} did not come"
            time.sleep(0.001)

    def wait_until_ready(self) -> None:
        self.wait((self.path / "ready").is_symlink, "readiness")
        self.namespace = pid_namespace(self.find("init"))

    def find(self, name: str) -> int:
        """Return the pid of the process with this name; 0 if it does not exist (yet)."""
        everybody = children(self.process.pid)
        for pid in everybody:
            words = command_line(pid)
            if name == "lock holder" and words[0] == "ocipod-lock":
                return pid
            if name == "init" and words[0] == "ocipod-init":
                return pid
            if name == "runtime" and "create" in words:
                return pid
            if name == "app" and words[:2] == ["/bin/sh", "-c"]:
                return pid
        return 0

    def kill(self, victim: str) -> None:
        if victim == "monitor":
            os.kill(self.process.pid, signal.SIGKILL)
            return
        if victim == "lock holder":
            # Another one takes its place; then only that one is left.
            os.kill(self.find("lock holder"), signal.SIGKILL)
            time.sleep(random.random() / 50)
            assert not is_free(self.path)
            self.wait(lambda: self.find("lock holder") > 0, "another lock holder")
            os.kill(self.process.pid, signal.SIGKILL)
            return
        os.kill(self.find(victim), signal.SIGKILL)

    def kill_while_it_creates(self, victim: str) -> None:
        self.wait(lambda: self.find("init") > 0, "the init")
        self.namespace = pid_namespace(self.find("init"))
        ready = self.path / "ready"
        found: list[int] = []

        def has_come() -> bool:
            found.append(self.find("runtime"))
            return found[-1] > 0 or ready.is_symlink()

        self.wait(has_come, "the runtime")
        time.sleep(random.random() / 20)
        pid = found[-1] if victim == "runtime" else self.process.pid
        if pid and is_alive(pid):
            os.kill(pid, signal.SIGKILL)
        self.wait(lambda: ready.is_symlink() or is_free(self.path), "readiness or the end")
        if ready.is_symlink() and victim == "runtime":
            os.kill(self.process.pid, signal.SIGKILL)  # the runtime was quicker than we

    def watch_the_lock(self, reaps: bool) -> None:
        """Wait until the lock is free: then no process may be left.

        With ``reaps``, this process reaps the pod's orphans like the host's init; otherwise it does
        not.
        """
        deadline = time.monotonic() + SECONDS
        while not is_free(self.path):
            if reaps:
                processes.reap_orphans()
            assert time.monotonic() < deadline, f"the lock is held: {self.members()}"
        assert living(self.uuid, self.namespace) == [], self.members()

    def members(self) -> list[str]:
        return [processes.describe(pid) for pid in living(self.uuid, self.namespace)]


@pytest.fixture
def image(work: Path) -> str:
    make_layout(work / "image")
    return f"oci:{work}/image:latest"


def test_the_lock_outlives_every_process(
    ocipod: Ocipod, image: str, pytestconfig: pytest.Config
) -> None:
    for number in range(pytestconfig.getoption("--invariant-rounds")):
        victim = VICTIMS[number % len(VICTIMS)]
        pod = Watched(ocipod, image)
        if victim in ("runtime", "monitor while it creates"):
            pod.kill_while_it_creates(victim)
        else:
            pod.wait_until_ready()
            pod.kill(victim)
        pod.watch_the_lock(reaps=number // len(VICTIMS) % 2 == 0)
        pod.process.wait(SECONDS)
        processes.reap_orphans()
        if number % len(VICTIMS) == len(VICTIMS) - 1:
            ocipod("gc", "--grace-period=0s").ok()
            assert ocipod.pods() == []


def test_a_pod_without_a_pid_namespace(ocipod: Ocipod, image: str) -> None:
    pod = Watched(ocipod, image, "--flavor=fly")
    ready = pod.path / "ready"
    pod.wait(ready.is_symlink, "readiness")
    pod.wait(lambda: len(living(pod.uuid, "")) > 5, "the app's daemons")
    pod.kill("monitor")
    pod.watch_the_lock(reaps=True)
    pod.process.wait(SECONDS)
