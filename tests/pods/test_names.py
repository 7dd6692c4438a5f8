"""Pods that find each other by name, whatever happens to their monitors and hosts files.

Each test has a separate host: a network namespace in which all its processes run.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.images import make_layout
from tests.support.network_host import NetworkHost, namespaces, own_host
from tests.support.ocipod import Ocipod

__all__ = ("namespaces", "own_host")


@pytest.fixture
def image(work: Path) -> str:
    make_layout(work / "busybox", config={"Cmd": ["/bin/sh"]})
    return f"oci:{work}/busybox:latest"


@pytest.fixture(autouse=True)
def lan(host: NetworkHost) -> None:
    ipam = {"type": "host-local", "subnet": "10.7.0.0/24"}
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipam": ipam}
    own = {"names": True, "builtin": True}
    configuration = {"cniVersion": "1.0.0", "name": "lan", "ociruntime": own, "plugins": [bridge]}
    host.configure("10-lan.conflist", configuration)


class Pods:
    def __init__(self, ocipod: Ocipod, work: Path, image: str) -> None:
        self.ocipod = ocipod
        self.local = f"--local-config={work}/etc"
        self.image = image

    def start(self, name: str, *words: str) -> str:
        look = ("--exec=/bin/sh", "--", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        command = ("run", "--detach", "--net=lan", f"--hostname={name}", *words, self.image)
        done = self.ocipod(self.local, *command, f"--name={name}-app", *look)
        return done.ok().out.strip()

    def hosts(self, uuid: str) -> list[str]:
        """Return the lines of the pod's file that begin with an address of the network."""
        text = (self.ocipod.path(uuid) / "hosts").read_text()
        return [line for line in text.splitlines() if line.startswith("10.7.")]

    def kill_monitor(self, uuid: str) -> None:
        os.kill(self.ocipod.monitor(uuid)["pid"], signal.SIGKILL)
        self.ocipod.wait_for(uuid, "exited")

    def table(self, host: NetworkHost) -> list[str]:
        path = host.state / ".names"
        return sorted(json.loads(path.read_text())["pods"]) if path.exists() else []

    def end(self, host: NetworkHost, *uuids: str) -> None:
        for uuid in uuids:
            self.ocipod("stop", "--force", uuid).ok()
            self.ocipod.wait_for(uuid, "exited")
            self.ocipod("rm", uuid).ok()
        host.assert_clean()
        assert self.table(host) == []


@pytest.fixture
def pods(ocipod: Ocipod, work: Path, image: str) -> Pods:
    return Pods(ocipod, work, image)


def test_names_of_a_pod(pods: Pods, host: NetworkHost) -> None:
    """A pod has the names of its apps and its hostname; --net-name replaces the apps' names."""
    one = pods.start("a")
    other = pods.start("b", "--net-name=db,sql")
    lines = ["10.7.0.2\ta-app a", "10.7.0.3\tdb sql b"]
    assert pods.hosts(one) == pods.hosts(other) == lines
    assert lines[1] in pods.ocipod("app", "exec", one, "--", "cat", "/etc/hosts").ok().out
    pods.end(host, one, other)


@pytest.mark.parametrize("name", ["a b", "a\n10.7.0.2 bank", "localhost", "x" * 129])
def test_bad_names(pods: Pods, name: str) -> None:
    words = (pods.local, "run", f"--net-name={name}", pods.image)
    pods.ocipod(*words).failed("--net-name: ", "valid host name")


@pytest.mark.parametrize("private", [(), ("--private-users",)], ids=["host", "private"])
def test_private_users(pods: Pods, host: NetworkHost, private: tuple[str, ...]) -> None:
    one = pods.start("a", *private)
    other = pods.start("b")
    shown = pods.ocipod("app", "exec", one, "--", "cat", "/etc/hosts").ok().out
    assert "10.7.0.3\tb-app b" in shown
    pods.end(host, one, other)


def test_the_hosts_own_file(pods: Pods, host: NetworkHost) -> None:
    one = pods.start("a", "--hosts-entry=host")
    other = pods.start("b", "--hosts-entry=10.7.9.9=extra")
    text = (pods.ocipod.path(one) / "hosts").read_text()
    assert text == Path("/etc/hosts").read_text()
    assert pods.hosts(other) == ["10.7.9.9\textra", "10.7.0.2\ta-app a", "10.7.0.3\tb-app b"]
    pods.end(host, one, other)


def test_a_killed_monitor_and_rm(pods: Pods, host: NetworkHost) -> None:
    one, dead = pods.start("a"), pods.start("dead")
    pods.kill_monitor(dead)
    assert len(pods.hosts(one)) == 2
    pods.ocipod("rm", dead).ok()
    assert pods.hosts(one) == ["10.7.0.2\ta-app a"]
    pods.end(host, one)


@pytest.mark.parametrize("point", ["names.after-table", "names.before-table"])
def test_killed_halfway(pods: Pods, host: NetworkHost, point: str) -> None:
    """While it joins or leaves: `rm` completes the cleanup."""
    one = pods.start("a")
    command = ("run", "--net=lan", "--hostname=b", pods.image, "--exec=/bin/true")
    pods.ocipod(pods.local, *command, fault=f"{point}:kill")
    (other,) = set(pods.ocipod.pods("run")) - {one}
    pods.ocipod.wait_for(other, "exited")
    pods.ocipod("rm", other).ok()
    assert pods.table(host) == [one]
    assert pods.hosts(one) == ["10.7.0.2\ta-app a"]
    pods.end(host, one)


def test_many_at_once(pods: Pods, host: NetworkHost) -> None:
    loop = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    commands = [
        (
            *(pods.local, "run", "--detach", "--net=lan", f"--hostname=pod{number}", pods.image),
            *("--name=app", "--exec=/bin/sh", "--", "-c", loop),
        )
        for number in range(8)
    ]
    uuids = [done.ok().out.strip() for done in pods.ocipod.together(*commands, timeout=120)]
    everything = {name for line in pods.hosts(uuids[0]) for name in line.split("\t")[1].split()}
    assert everything == {"app", *(f"pod{number}" for number in range(8))}
    for uuid in uuids[1:]:
        assert pods.hosts(uuid) == pods.hosts(uuids[0])
    for uuid in uuids[1:]:
        os.kill(pods.ocipod.monitor(uuid)["pid"], signal.SIGTERM)
    for uuid in uuids[1:]:
        pods.ocipod.wait_for(uuid, "exited")
    assert len(pods.hosts(uuids[0])) == 1
    for uuid in uuids[1:]:
        pods.ocipod("rm", uuid).ok()
    pods.end(host, uuids[0])
