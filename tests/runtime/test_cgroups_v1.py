"""The cgroup layer on this machine's v1 hierarchies, without a runtime around it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Layout, detect
from tests.support import cgroupfs
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api
from tests.support.runtime import Runtime

pytestmark = pytest.mark.root

TAG = f"octg{os.getpid():x}"
MIB = 1 << 20
Sleep = Callable[[], subprocess.Popen[str]]

# Answers each line "open PATH MODE" or "mknod KIND MAJOR MINOR" with ok or an errno's name.
DEVICE_PROBE = """
import errno, os, sys
for line in sys.stdin:
    verb, *words = line.split()
    try:
        if verb == "open":
            os.close(os.open(words[0], getattr(os, words[1])))
        else:
            kind = {"c": 0o020600, "b": 0o060600}[words[0]]
            os.mknod("/dev/shm/%s", kind, os.makedev(int(words[1]), int(words[2])))
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
    else:
        print("ok", flush=True)
"""


@pytest.fixture
def _watch() -> None:
    """Replace the leak check for runtimes; see ``layout``."""


@pytest.fixture(scope="module")
def host() -> Layout:
    found = detect()
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not any(each.version == 1 and each.controllers for each in found.hierarchies):
        pytest.skip("this host has no cgroup v1 controllers")
    return found


@pytest.fixture
def layout(host: Layout) -> Iterator[Layout]:
    """The host's hierarchies; fails the test if a cgroup of ours exists after it."""
    yield host
    left = cgroupfs.named(TAG)
    for directory in left:
        for word in (directory / "cgroup.procs").read_text().split():
            os.kill(int(word), 9)
    cgroupfs.remove(left)
    assert left == set()


@pytest.fixture
def sleep() -> Iterator[Sleep]:
    """Start a process that only waits; it is killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        started.append(subprocess.Popen(["sleep", "1000"], text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def group(layout: Layout) -> Iterator[Callable[..., Cgroup]]:
    """Create a cgroup with resources; removed after the test."""
    made: list[Cgroup] = []

    def make(resources: dict[str, Any] | None = None, name: str = "") -> Cgroup:
        cgroup = Cgroup.plan(layout, name or None, f"{TAG}{len(made)}")
        cgroup.create(resources)
        made.append(cgroup)
        return cgroup

    yield make
    for cgroup in reversed(made):
        cgroup.kill()
        cgroup.remove()


def directory(cgroup: Cgroup, controller: str) -> Path:
    """Return the controller's cgroup directory; skip the test on hosts without it on v1."""
    for each in cgroup.placements:
        if controller in each.hierarchy.controllers and each.hierarchy.version == 1:
            return Path(each.directory)
    pytest.skip(f"this host has no v1 controller {controller}")


def value(cgroup: Cgroup, file: str) -> str:
    return (directory(cgroup, file.partition(".")[0]) / file).read_text().strip()


def test_every_hierarchy_has_it(group: Callable[..., Cgroup], sleep: Sleep) -> None:
    cgroup = group(name=f"/{TAG}/deep/er")
    process = sleep()
    cgroup.attach(process.pid)
    lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
    places = {line.split(":")[1]: line.split(":", 2)[2] for line in lines}
    assert {places[option] for option, _ in cgroup.hierarchies()} == {f"/{TAG}/deep/er"}
    assert cgroup.processes() == [process.pid]


def test_limits(group: Callable[..., Cgroup]) -> None:
    resources = {
        "memory": {"limit": 64 * MIB, "swap": 96 * MIB, "reservation": 32 * MIB, "swappiness": 7},
        "cpu": {"shares": 512, "quota": 30000, "period": 60000, "cpus": "0", "mems": "0"},
        "pids": {"limit": 0},
    }
    cgroup = group(resources)
    assert value(cgroup, "cpuset.cpus") == "0"
    cgroup.apply(resources)
    assert value(cgroup, "memory.limit_in_bytes") == str(64 * MIB)
    assert value(cgroup, "memory.memsw.limit_in_bytes") == str(96 * MIB)
    assert value(cgroup, "memory.soft_limit_in_bytes") == str(32 * MIB)
    assert value(cgroup, "memory.swappiness") == "7"
    assert value(cgroup, "cpu.shares") == "512"
    assert value(cgroup, "cpu.cfs_quota_us") == "30000"
    assert value(cgroup, "cpu.cfs_period_us") == "60000"
    assert value(cgroup, "pids.max") == "0"


def test_memory_is_raised_and_lowered(group: Callable[..., Cgroup]) -> None:
    """In both directions, memory+swap must never be less than memory."""
    cgroup = group()
    for limit in (64, 256, 32, 128):
        cgroup.apply({"memory": {"limit": limit * MIB, "swap": limit * MIB}})
        assert value(cgroup, "memory.limit_in_bytes") == str(limit * MIB)
        assert value(cgroup, "memory.memsw.limit_in_bytes") == str(limit * MIB)
    cgroup.apply({"memory": {"limit": -1}})
    assert len(value(cgroup, "memory.memsw.limit_in_bytes")) > 15


def test_quota_and_burst_are_raised_and_lowered(group: Callable[..., Cgroup]) -> None:
    cgroup = group()
    for quota, burst in ((20000, 20000), (90000, 80000), (5000, 4000)):
        cgroup.apply({"cpu": {"quota": quota, "burst": burst, "period": 100000}})
        assert value(cgroup, "cpu.cfs_quota_us") == str(quota)
        assert value(cgroup, "cpu.cfs_burst_us") == str(burst)


def test_a_cpuset_is_inherited_on_every_level(group: Callable[..., Cgroup]) -> None:
    cgroup = group(name=f"/{TAG}/a/b")
    leaf = directory(cgroup, "cpuset")
    for file in ("cpuset.cpus", "cpuset.mems"):
        top = (leaf.parents[2] / file).read_text()
        assert [(place / file).read_text() for place in (leaf, *leaf.parents[:2])] == [top] * 3


def make_and_limit(cgroup: Cgroup, resources: dict[str, Any]) -> None:
    try:
        cgroup.create(resources)
        cgroup.apply(resources)
    finally:
        cgroup.remove()


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"cpu": {"cpus": "4000"}}, r"cpu\.cpus: write .*offers cpus"),
        ({"cpu": {"quota": 5}}, r"cpu\.quota: write .*1000 us"),
        ({"memory": {"swappiness": 900}}, r"memory\.swappiness: write .*invalid argument"),
        (
            {"blockIO": {"throttleReadBpsDevice": [{"major": 511, "minor": 7, "rate": 1}]}},
            r"throttleReadBpsDevice\[0\]: write .*no such device",
        ),
        ({"blockIO": {"leafWeight": 100}}, r"blockIO\.leafWeight: .*control file"),
        ({"unified": {"memory.high": "1"}}, r"unified\[\"memory.high\"\]: "),
    ],
)
def test_refusals_leave_nothing(layout: Layout, resources: dict[str, Any], words: str) -> None:
    cgroup = Cgroup.plan(layout, f"/{TAG}/x", "x")
    with pytest.raises((ConfigError, HostError), match=words):
        make_and_limit(cgroup, resources)
    assert cgroupfs.named(TAG) == set()


def test_a_limit_below_the_usage(group: Callable[..., Cgroup]) -> None:
    cgroup = group()
    hog = subprocess.Popen(
        [sys.executable, "-c", "input(); x = b'x' * (32 << 20); print(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert hog.stdin is not None
    assert hog.stdout is not None
    with hog:
        cgroup.attach(hog.pid)
        hog.stdin.write(b"\n")
        hog.stdin.flush()
        hog.stdout.readline()
        with pytest.raises(ConfigError, match=r"memory\.limit: .*\d+ bytes is below"):
            cgroup.apply({"memory": {"limit": 16 * MIB, "checkBeforeUpdate": True}})
        assert hog.poll() is None
        hog.kill()


def test_out_of_memory(group: Callable[..., Cgroup]) -> None:
    cgroup = group()
    cgroup.apply({"memory": {"limit": 16 * MIB, "swap": 16 * MIB}})
    assert not cgroup.oom_killed()
    hog = subprocess.Popen(
        [sys.executable, "-c", "input(); x = b'x' * (64 << 20)"], stdin=subprocess.PIPE
    )
    cgroup.attach(hog.pid)
    hog.communicate(b"\n")
    assert hog.returncode == -9
    assert cgroup.oom_killed()


@pytest.fixture
def probe(group: Callable[..., Cgroup], layout: Layout) -> Iterator[Callable[..., Any]]:
    """Enter a cgroup with device rules; return a function that asks the process in it."""
    started: list[subprocess.Popen[str]] = []

    def enter(*rules: dict[str, Any]) -> Callable[[str], str]:
        cgroup = group({"devices": list(rules)})
        process = subprocess.Popen(
            [sys.executable, "-c", DEVICE_PROBE % TAG],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        cgroup.attach(process.pid)

        def ask(line: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            print(line, file=process.stdin, flush=True)
            answer = process.stdout.readline().strip()
            Path("/dev/shm", TAG).unlink(missing_ok=True)
            return answer

        return ask

    yield enter
    for process in started:
        process.kill()
        process.communicate()


def test_devices_by_default(probe: Callable[..., Any], group: Callable[..., Cgroup]) -> None:
    """Everything is denied first, even without rules (GHSA-g54h-m393-cpwq)."""
    ask = probe()
    assert ask("open /dev/null O_RDWR") == "ok"
    assert ask("open /dev/zero O_RDONLY") == "ok"
    assert ask("mknod c 1 2") == "ok"
    assert ask("open /dev/kmsg O_RDONLY") == "EPERM"
    listed = value(group(), "devices.list").splitlines()
    assert "c 1:3 rwm" in listed
    assert not any(line.startswith("a ") for line in listed)


def test_device_rules(probe: Callable[..., Any]) -> None:
    ask = probe(
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 1, "minor": 11, "access": "r"},
        {"allow": False, "type": "c", "major": 1, "minor": 5, "access": "w"},
        {"allow": False, "type": "b", "access": "m"},
    )
    assert ask("open /dev/kmsg O_RDONLY") == "ok"
    assert ask("open /dev/kmsg O_WRONLY") == "EPERM"
    assert ask("open /dev/zero O_RDONLY") == "ok"
    assert ask("open /dev/zero O_WRONLY") == "EPERM"
    assert ask("mknod b 7 0") == "EPERM"
    assert ask("mknod c 10 200") == "ok"


def test_every_device(probe: Callable[..., Any]) -> None:
    ask = probe({"allow": True, "access": "rwm"})
    assert ask("open /dev/kmsg O_RDONLY") == "ok"


def test_freezer(group: Callable[..., Cgroup], sleep: Sleep) -> None:
    cgroup = group()
    process = sleep()
    cgroup.attach(process.pid)
    assert not cgroup.frozen()
    cgroup.freeze()
    assert cgroup.frozen()
    assert value(cgroup, "freezer.state") == "FROZEN"
    cgroup.thaw()
    assert not cgroup.frozen()


def test_a_cgroup_in_use_is_refused(
    group: Callable[..., Cgroup], layout: Layout, sleep: Sleep
) -> None:
    """LNX-CG-01: with a process in it, in any hierarchy, or frozen."""
    cgroup = group(name=f"/{TAG}/used")
    process = sleep()
    (directory(cgroup, "pids") / "cgroup.procs").write_text(str(process.pid))
    again = Cgroup.plan(layout, f"/{TAG}/used", "x")
    with pytest.raises(ConfigError, match=f"not empty: .*{process.pid}"):
        again.create(None)
    again.kill()
    again.remove()
    assert process.poll() is None
    process.kill()
    process.wait()
    freezing = directory(cgroup, "freezer") / "freezer.state"
    freezing.write_text("FROZEN")
    with pytest.raises(ConfigError, match="is frozen"):
        Cgroup.plan(layout, f"/{TAG}/used", "x").create(None)
    freezing.write_text("THAWED")


def test_a_cgroup_that_was_there_stays(group: Callable[..., Cgroup], layout: Layout) -> None:
    parent = group(name=f"/{TAG}/parent")
    inner = Cgroup.plan(layout, f"/{TAG}/parent", "x")
    inner.create(None)
    assert inner.adopted
    inner.remove()
    assert all(os.path.isdir(path) for path in parent.paths.values())


@pytest.mark.parametrize("frozen", [False, True])
def test_killed_and_removed_by_what_was_recorded(
    layout: Layout, sleep: Sleep, frozen: bool
) -> None:
    cgroup = Cgroup.plan(layout, f"/{TAG}/k/l", "x")
    record = cgroup.record()
    cgroup.create(None)
    processes = [sleep() for _ in range(3)]
    for process in processes:
        cgroup.attach(process.pid)
    inner = directory(cgroup, "pids") / "inner"
    inner.mkdir()
    (inner / "cgroup.procs").write_text(str(processes[0].pid))
    if frozen:
        cgroup.freeze()
    again = Cgroup.from_record(record)
    assert again.processes() == sorted(process.pid for process in processes)
    again.kill()
    assert [process.wait() for process in processes] == [-9] * 3
    again.remove()
    assert cgroupfs.named(TAG) == set()


def test_killing_those_who_multiply(layout: Layout) -> None:
    cgroup = Cgroup.plan(layout, f"/{TAG}/bomb", "x")
    cgroup.create(None)
    cgroup.apply({"pids": {"limit": 40}})
    script = "read x; f() { f | f & }; f 2>/dev/null; wait"
    bomb = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cgroup.attach(bomb.pid)
    assert bomb.stdin is not None
    bomb.stdin.write(b"\n")
    bomb.stdin.close()
    cgroup.kill()
    bomb.wait()
    cgroup.remove()


def test_what_is_left_is_named(
    layout: Layout, sleep: Sleep, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ociruntime.runtime.cgroups import cgroup_directory

    monkeypatch.setattr(cgroup_directory, "_REMOVAL_DEADLINE", 0.05)
    cgroup = Cgroup.plan(layout, f"/{TAG}/left", "x")
    cgroup.create(None)
    process = sleep()
    cgroup.attach(process.pid)
    with pytest.raises(HostError, match=f"processes still running: {process.pid}"):
        cgroup.remove()
    process.kill()
    process.wait()
    cgroup.remove()


def test_attaching_a_process_that_has_ended(group: Callable[..., Cgroup]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(HostError, match="has exited"):
        group().attach(ended.pid)


@needs_mount_api("mounts are no descriptors without it")
def test_a_limit_on_descriptors_leaves_no_cgroup_out(
    runtime: Runtime, container: MakeContainer, bundle: MakeBundle
) -> None:
    """The kernel drops excess descriptors of a message without an error."""
    one = bundle()
    one.user_namespace().namespace("cgroup")
    cgroup = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}
    binds = [
        {"destination": f"/bound{number}", "source": "/var/tmp", "options": ["bind"]}
        for number in range(40)
    ]
    one.config["mounts"] = [*one.config["mounts"], cgroup, *binds]
    one.save()
    made = container(one)
    refused = 0
    for limit in range(30, 75):
        command = ["prlimit", f"--nofile={limit}", str(runtime.path), "--root", str(runtime.root)]
        words = ["create", "--bundle", str(one.path), made.id]
        null = subprocess.DEVNULL
        done = subprocess.run([*command, *words], stdin=null, stdout=null, stderr=null, check=False)
        if done.returncode:
            refused += 1
            continue
        made.exists = True
        entered = set(map(str, cgroupfs.of_process(made.state()["pid"]).values()))
        made.delete("--force").silent()
        assert all(made.id in directory for directory in entered), (limit, entered)
    assert 0 < refused < 45
