"""The cgroup layer on a host with cgroup v2, without a runtime around it."""

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
from ociruntime.runtime.cgroups.device_enforcement import DeviceRules
from ociruntime.runtime.cgroups.hierarchies import Layout, detect
from tests.support import cgroupfs

pytestmark = pytest.mark.root

TAG = f"oct2{os.getpid():x}"
MIB = 1 << 20
WAIT = "import sys; sys.stdin.readline(); "
Start = Callable[..., subprocess.Popen[str]]
Make = Callable[..., Cgroup]


@pytest.fixture
def _watch() -> None:
    """Replace the leak check for runtimes; see ``layout``."""


@pytest.fixture(scope="module")
def host() -> Layout:
    found = detect()
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if found.mode != "v2":
        pytest.skip("this host has cgroup v1")
    return found


@pytest.fixture
def layout(host: Layout) -> Iterator[Layout]:
    """The host's hierarchy; fails the test if a cgroup of ours exists after it."""
    yield host
    left = cgroupfs.named(TAG)
    for directory in left:
        (directory / "cgroup.kill").write_text("1")
    cgroupfs.remove(left)
    assert left == set()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code that continues when it receives a line; killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str = "sys.stdin.readline()") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WAIT + code]
        started.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def group(layout: Layout) -> Iterator[Make]:
    """Create a cgroup with resources; removed after the test."""
    made: list[Cgroup] = []

    def make(resources: dict[str, Any] | None = None, name: str = "") -> Cgroup:
        cgroup = Cgroup.plan(layout, name or None, f"{TAG}{len(made)}")
        cgroup.create(resources)
        made.append(cgroup)
        return cgroup

    yield make
    for cgroup in reversed(made):
        cgroup.remove(kill=True)


def directory(cgroup: Cgroup) -> Path:
    return Path(cgroup.placements[0].directory)


def value(cgroup: Cgroup, file: str) -> str:
    return (directory(cgroup) / file).read_text().strip()


def test_limits(group: Make) -> None:
    """Controllers are enabled in all ancestors, also for ``unified`` alone (LNX-UNI-01)."""
    resources = {
        "memory": {"limit": 64 * MIB, "swap": 96 * MIB, "reservation": 32 * MIB},
        "cpu": {"shares": 1024, "quota": 30000, "period": 60000, "burst": 100},
        "unified": {"pids.max": "20", "cgroup.max.depth": "3", "memory.high": str(48 * MIB)},
    }
    cgroup = group(resources, f"/{TAG}/a/b")
    cgroup.apply(resources)
    assert value(cgroup, "memory.max") == str(64 * MIB)
    assert value(cgroup, "memory.swap.max") == str(32 * MIB)
    assert value(cgroup, "memory.low") == str(32 * MIB)
    assert value(cgroup, "memory.high") == str(48 * MIB)
    assert value(cgroup, "cpu.weight") == "100"
    assert value(cgroup, "cpu.max") == "30000 60000"
    assert value(cgroup, "cpu.max.burst") == "100"
    assert value(cgroup, "pids.max") == "20"
    assert value(cgroup, "cgroup.max.depth") == "3"
    cgroup.apply({"cpu": {"period": 90000}})
    assert value(cgroup, "cpu.max") == "30000 90000"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": {"swappiness": 1}}, r"memory\.swappiness: has no equivalent"),
        ({"cpu": {"quota": 5}}, r"cpu\.quota: write .*1000 us"),
        ({"unified": {"nosuch.max": "1"}}, r"nosuch"),
        ({"unified": {"memory.nosuch": "1"}}, r'"memory\.nosuch"'),
        (
            {"blockIO": {"throttleReadBpsDevice": [{"major": 511, "minor": 7, "rate": 1}]}},
            r"throttleReadBpsDevice\[0\]: write .*no such device",
        ),
    ],
)
def test_refusals(group: Make, resources: dict[str, Any], words: str) -> None:
    cgroup = group()
    with pytest.raises((ConfigError, HostError), match=words):
        cgroup.apply(resources)


def test_device_rules(group: Make, start: Start) -> None:
    code = (
        "import os\n"
        "def look(path, mode):\n"
        "    try: os.close(os.open(path, mode))\n"
        "    except OSError as error: return error.errno\n"
        "    return 0\n"
        "for line in sys.stdin:\n"
        "    print(look('/dev/null', 2), look('/dev/zero', 0), look('/dev/zero', 1),"
        " look('/dev/kmsg', 0), flush=True)"
    )
    rules = [
        {"allow": False, "access": "rwm"},
        {"allow": False, "type": "c", "major": 1, "minor": 5, "access": "w"},
    ]
    cgroup = group({"devices": rules})
    process = start(code)
    cgroup.attach(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    print(file=process.stdin, flush=True)

    def answer() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        print(file=process.stdin, flush=True)
        return process.stdout.readline().strip()

    def install(entries: list[dict[str, Any]]) -> None:
        directory = cgroup.placements[0].directory
        DeviceRules(entries, "devices", "", directory).install()

    assert answer() == "0 0 1 1"
    # Another one replaces the program instead of adding one to it.
    for _ in range(100):
        install([{"allow": True}])
    assert answer() == "0 0 0 0"
    install(rules[:1])
    assert answer() == "0 0 0 1"


def test_a_user_namespace_does_without_device_rules(layout: Layout) -> None:
    code = (
        "from ociruntime.runtime.cgroups.device_program import assemble, install\n"
        "from ociruntime.runtime.cgroups.device_policy import policy\n"
        "install(assemble(policy([], '')), '/sys/fs/cgroup')"
    )
    subprocess.run(["unshare", "-Ur", sys.executable, "-c", code], check=True)


def test_freezer(group: Make, start: Start) -> None:
    cgroup = group()
    cgroup.attach(start().pid)
    cgroup.freeze()
    assert cgroup.frozen()
    cgroup.thaw()
    assert not cgroup.frozen()


def test_killed_while_frozen_with_sub_cgroups(layout: Layout, start: Start) -> None:
    cgroup = Cgroup.plan(layout, f"/{TAG}/k/l", "x")
    record = cgroup.record()
    cgroup.create(None)
    process = start()
    cgroup.attach(process.pid)
    inner = directory(cgroup) / "inner" / "most"
    inner.mkdir(parents=True)
    (inner / "cgroup.procs").write_text(str(process.pid))
    cgroup.freeze()
    assert Cgroup.from_record(record).processes() == [process.pid]
    Cgroup.from_record(record).remove(kill=True)
    assert process.wait() == -9


def test_beside_a_payload_with_cgroups_of_its_own(group: Make, start: Start) -> None:
    """A cgroup with children accepts no process: exec uses the init's cgroup."""
    cgroup = group()
    init, second = start(), start()
    cgroup.attach(init.pid)
    inner = directory(cgroup) / "init"
    inner.mkdir()
    (inner / "cgroup.procs").write_text(str(init.pid))
    (directory(cgroup) / "cgroup.subtree_control").write_text("+memory")
    with pytest.raises(HostError, match="cannot have processes"):
        cgroup.attach(second.pid)
    cgroup.attach(second.pid, beside=init.pid)
    assert set((inner / "cgroup.procs").read_text().split()) == {str(init.pid), str(second.pid)}


def test_below_a_cgroup_with_processes(group: Make, layout: Layout, start: Start) -> None:
    parent = group(name=f"/{TAG}")
    parent.attach(start().pid)
    inner = Cgroup.plan(layout, f"/{TAG}/inner", "x")
    with pytest.raises(ConfigError, match="no internal processes"):
        inner.create({"memory": {"limit": MIB}})
    assert value(parent, "cgroup.subtree_control") == ""
    assert value(parent, "cgroup.type") == "domain"


def test_out_of_memory(group: Make, start: Start) -> None:
    cgroup = group()
    cgroup.apply({"memory": {"limit": 16 * MIB, "swap": 16 * MIB}})
    hog = start("x = b'x' * (64 << 20)")
    cgroup.attach(hog.pid)
    hog.communicate("\n")
    assert hog.returncode == -9
    assert cgroup.oom_killed()


def test_ownership(group: Make) -> None:
    cgroup = group()
    cgroup.hand_over(1234, 5678)
    owners = {name: (directory(cgroup) / name).stat().st_uid for name in ("cgroup.procs", ".")}
    assert owners == {"cgroup.procs": 1234, ".": 1234}
    assert (directory(cgroup) / "memory.max").stat().st_uid == 0
