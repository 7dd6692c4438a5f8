"""`events`: a container's resource usage, in runc's format."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.descriptors import targets
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime", "runc")
MIB = 1 << 20
EAT = "dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null"


def stats(one: Container) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(one.runtime("events", "--stats", one.id).ok().out)
    assert (event["type"], event["id"]) == ("stats", one.id)
    data: dict[str, Any] = event["data"]
    return data


def test_stats(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle().shell("while [ ! -e /enough ]; do :; done")
    made.resources["memory"] = {"limit": 64 * MIB}
    made.resources["pids"] = {"limit": 20}
    one = container(made).started()
    # Time is counted by the tick where the kernel is a program.
    assert processes.until(lambda: "total" in stats(one)["cpu"]["usage"])
    found = stats(one)
    assert found["memory"]["usage"]["limit"] == 64 * MIB
    assert 0 < found["memory"]["usage"]["usage"] < 64 * MIB
    assert found["memory"]["raw"]
    assert found["pids"] == {"current": 1, "limit": 20}
    assert found["cpu"]["usage"]["total"] > 0
    assert found["network_interfaces"] is None
    assert found["intel_rdt"] == {}


@judge_by("ociruntime")
@pytest.mark.needs_call("keyctl", reason="runc has to join a keyring", error="EPERM")
@pytest.mark.needs_call("openat2", reason="runc warns without it", error="EPERM")
def test_members_are_those_of_runc(container: MakeContainer, tmp_path: Path) -> None:
    """Both report the same cgroups of one host, with the same names and types."""
    theirs = Path("/usr/sbin/runc")
    if not theirs.exists() or cgroupfs.is_v2():
        pytest.skip("there is no runc to compare with")
    ours = container().started()
    peer = Runtime(theirs, tmp_path / "runc")
    other = Container(peer, f"{ours.id}peer", container().bundle)
    try:
        other.started()
        wanted, found = shape(stats(other)), shape(stats(ours))
        # Both leave it out while the container's cgroup has no page of a file.
        maybe = {".memory.cache: int"}
        assert wanted - found <= maybe
        # Counters of the unified hierarchy, which runc does not look at beside the others.
        beside = (".blkio", ".hugetlb")
        assert {name for name in found - wanted if not name.startswith(beside)} <= maybe
    finally:
        other.finish()
        other.close()


def shape(value: object, name: str = "") -> set[str]:
    """Return the paths of members, and the type of each value."""
    if isinstance(value, dict):
        return {found for key, member in value.items() for found in shape(member, f"{name}.{key}")}
    if isinstance(value, list):
        return {found for item in value for found in shape(item, f"{name}[]")}
    return {f"{name}: {type(value).__name__}"}


def follow(one: Container, *flags: str) -> tuple[subprocess.Popen[bytes], Path]:
    file = one.bundle.path / "events"
    with file.open("wb") as out:
        return one.runtime.popen("events", *flags, one.id, stdout=out), file


def types(file: Path) -> list[str]:
    return [json.loads(line)["type"] for line in file.read_text().splitlines() if line]


def test_every_interval_until_the_end(container: MakeContainer) -> None:
    one = container().started()
    process, file = follow(one, "--interval", "100ms")
    assert processes.until(lambda: types(file).count("stats") >= 3)
    one.kill("KILL").silent()
    one.wait()
    assert process.wait(20) == 0
    assert set(types(file)) == {"stats"}


@judge_by("ociruntime")
@pytest.mark.parametrize("init", [True, False])
def test_out_of_memory(container: MakeContainer, bundle: MakeBundle, init: bool) -> None:
    script = f"read go </go; {'exec ' if init else ''}{EAT}; sleep 1000"
    made = bundle().shell(f"mkfifo /go; echo ready; {script}")
    made.resources["memory"] = {"limit": 16 * MIB, "swap": 16 * MIB}
    one = container(made).started()
    one.wait_output("ready")
    process, file = follow(one, "--interval", "1000h")  # more than poll(2) takes at once
    # The notification is requested before a process starts to allocate.
    assert processes.until(lambda: b"eventfd" in notices(process.pid))
    (one.bundle.rootfs / "go").write_text("go\n")
    assert processes.until(lambda: "oom" in types(file))
    if not init:
        assert process.poll() is None
        one.kill("KILL").silent()
    one.wait()
    assert process.wait(20) == 0
    assert types(file) == ["oom"]
    assert json.loads(file.read_text())["id"] == one.id


def notices(pid: int) -> bytes:
    """Return the process's open notification files: ``eventfd``, also for memory.events on v2."""
    text = " ".join(targets(pid).values())
    return text.replace("memory.events", "eventfd").encode()


@judge_by("ociruntime")
def test_reader_goes_away(container: MakeContainer) -> None:
    one = container().started()
    process = one.runtime.popen("events", "--interval=20ms", one.id, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == 0


@judge_by("ociruntime")
@pytest.mark.parametrize("interval", ["0", "-1s", "5", "x", ""])
def test_bad_interval(container: MakeContainer, interval: str) -> None:
    one = container().started()
    one.runtime("events", f"--interval={interval}", one.id).failed()


@deviates(runc="has words of its own")
def test_refusals(container: MakeContainer, bundle: MakeBundle, runtime: Runtime) -> None:
    stopped = container(bundle("true")).started()
    stopped.wait()
    for flags in ((), ("--stats",)):
        runtime("events", *flags, stopped.id).failed("container not running")
        runtime("events", *flags, "nobody").failed("does not exist")
    made = bundle()
    del made.linux["resources"]
    one = container(made)
    one.runtime = Runtime(runtime.path, runtime.root, "--cgroup-manager=disabled")
    one.started()
    runtime("events", "--stats", one.id).failed("cgroup of its")
