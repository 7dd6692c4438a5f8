"""Many clients use the same few containers while the daemon is killed again and again.

``--manager-seconds`` and ``--manager-clients`` make it longer.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes
from tests.support.daemon import Daemon

NAMES = [f"c{number}" for number in range(10)]
KILLED_EVERY = 3.0  # seconds
LINES = 30
COUNTS = (
    f"trap 'exit 7' TERM; n=0; while [ $n -lt {LINES} ];"
    " do echo $n; n=$((n+1)); sleep 0.05; done; exit 3"
)
ENDED, STOPPED, KILLED = 3, 7, 137  # the exit codes that it can have

# Which event of a container may follow which; "" is the start.
FOLLOWS = {
    "": {"create"},
    "create": {"start", "destroy", "kill"},
    "start": {"die", "oom", "kill", "pause", "destroy", "restart"},
    "oom": {"die"},
    "die": {"stop", "start", "destroy", "kill"},
    "stop": {"start", "destroy"},
    "destroy": set(),
}


class Clients:
    """Clients that each send one request after the other; ``codes`` counts the status codes."""

    def __init__(self, daemon: Daemon, spec: dict[str, Any]) -> None:
        self.daemon = daemon
        self.spec = spec
        self.over = threading.Event()
        self.codes: Counter[tuple[str, int]] = Counter()
        self.wrong: list[str] = []

    def run(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self.over.is_set():
            verb = chance.choice(("create", "create", "start", "start", "stop", "delete"))
            name = chance.choice(NAMES)
            try:
                answer = self._ask(verb, name)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # there is no daemon just now
                continue
            self.codes[verb, answer.status] += 1
            if answer.status >= 500 or answer.status == 400:
                self.wrong.append(repr(answer))

    def _ask(self, verb: str, name: str) -> Any:  # noqa: ANN401 - an Answer
        if verb == "create":
            return self.daemon("POST", "/v1/containers", self.spec | {"name": name})
        if verb == "delete":
            return self.daemon("DELETE", f"/v1/containers/{name}?force=1")
        body = {"timeout": 1} if verb == "stop" else None
        return self.daemon("POST", f"/v1/containers/{name}/{verb}", body)


def pods_in_cgroups(uuids: set[str]) -> set[str]:
    """Return the given pods that have a cgroup."""
    return {
        uuid
        for uuid in uuids
        for top in cgroupfs.hierarchies().values()
        if (top / f"ocipod-{uuid}").exists()
    }


def check_events(events: list[dict[str, Any]], living: set[str]) -> None:
    """Check that each container's events are consistent, up to its removal if it is gone."""
    last: dict[str, str] = {}
    for event in events:
        before = last.get(event["id"], "")
        assert event["kind"] in FOLLOWS[before], f"{event} after {before or 'nothing'}"
        last[event["id"]] = event["kind"]
    unfinished = {one for one, kind in last.items() if kind != "destroy"}
    assert unfinished == living


def check_runs(daemon: Daemon, container: str, events: list[dict[str, Any]]) -> None:
    """Check that the log of each run of a container is complete, and has its exit code."""
    exits = [
        event["attributes"]["exit_code"]
        for event in events
        if (event["id"], event["kind"]) == (container, "die")
    ]
    assert set(exits) <= {ENDED, STOPPED, KILLED}
    text = daemon("GET", f"/v1/containers/{container}/logs?stdout=1").body.decode()
    numbers = [int(line) for line in text.split()]
    begun = numbers.count(0)
    for before, number in itertools.pairwise(numbers):
        assert number in (before + 1, 0), numbers
    assert numbers.count(LINES - 1) >= exits.count(ENDED)
    assert begun <= len([one for one in events if (one["id"], one["kind"]) == (container, "start")])


def check_files(root: Path, daemon_started: float) -> None:
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".jsonl" and path.name not in ("lock", "pod"):
            json.loads(path.read_text())
        assert ".tmp" not in path.name or path.stat().st_mtime > daemon_started, path


def test_killed_again_and_again(
    daemon: Daemon, shell_root: str, pytestconfig: pytest.Config
) -> None:
    seconds = pytestconfig.getoption("--manager-seconds")
    count = pytestconfig.getoption("--manager-clients")
    spec = {"rootfs": shell_root, "command": ["/bin/sh", "-c", COUNTS], "network": "none"}
    clients = Clients(daemon, spec)
    threads = [threading.Thread(target=clients.run, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    kills = 0
    try:
        while time.monotonic() - began < seconds:
            time.sleep(KILLED_EVERY)
            daemon.kill()
            kills += 1
            daemon.pods.look()
            daemon.start()
    finally:
        clients.over.set()
        for thread in threads:
            thread.join(120)
    print(kills, "kills,", dict(clients.codes))
    assert clients.wrong == []
    assert all(clients.codes[verb, status] for verb, status in (("create", 201), ("start", 200)))
    daemon.kill()
    daemon.pods.look()
    started = time.time()
    daemon.start()
    check_files(daemon.root, started)

    shown = daemon.list()
    ids = {one["id"] for one in shown}
    pods = {one["pod"] for one in shown}
    assert ids == {path.name for path in (daemon.root / "containers").iterdir()}
    assert len({one["name"] for one in shown}) == len(shown)
    assert {one["status"] for one in shown} <= {"created", "running", "stopped"}
    for name in sorted(ids):
        daemon("GET", f"/v1/containers/{name}").ok()
    daemon.pods("gc", "--grace-period=0s").ok()  # those that were never made to the end
    assert set(daemon.pods.pods()) == pods
    assert pods_in_cgroups(daemon.pods.seen | pods) <= pods
    assert processes.until(lambda: not zombies(daemon.pid))
    events = list(daemon.recorded_events())
    check_events(events, ids)
    for one in shown:
        check_runs(daemon, one["id"], events)
    for one in shown:
        daemon.remove(one["id"])
    assert daemon.pods.pods() == []


def test_waiting_through_the_end_of_the_daemon(daemon: Daemon, shell_root: str, work: Path) -> None:
    """The client reports the right exit code or none."""
    (work / "box").mkdir()
    script = "while ! busybox test -e /box/$0; do sleep 0.05; done; exit 5"
    box = [{"source": str(work / "box"), "target": "/box"}]
    for end in (daemon.kill, daemon.stop):
        one = daemon.run(
            rootfs=shell_root, command=["/bin/sh", "-c", script, end.__name__], volumes=box
        )
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(daemon.ctl, "wait", one)
            assert processes.until(lambda: connections(daemon) == 1)
            end()
            result = waiting.result(30)
        assert (result.status, result.out) == (1, "")
        (work / "box" / end.__name__).touch()
        daemon.start()
        assert daemon.ctl("wait", one).ok().out == "5\n"


def connections(daemon: Daemon) -> int:
    """Return the number of connected clients."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {daemon.socket}") for line in lines) - 1


def zombies(parent: int) -> list[int]:
    """Return the daemon's children that it has not reaped."""
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit()
        and processes.state(int(name)) == "Z"
        and processes.parent(int(name)) == parent
    ]
