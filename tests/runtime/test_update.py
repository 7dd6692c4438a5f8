"""`update`: change the limits of an existing container, all or none."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import pytest

from tests.support import cgroupfs
from tests.support.container import Container
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Result, Runtime

MIB = 1 << 20
OWN_WORDS = "has words of its own"

needs_swap_files = pytest.mark.skipif(
    not (
        cgroupfs.is_v2()
        or cgroupfs.hierarchies()["memory"].joinpath("memory.memsw.limit_in_bytes").exists()
    ),
    reason="the kernel does not count swap",
)


def update(one: Container, *flags: str) -> Result:
    return one.runtime("update", *flags, one.id)


def by_document(one: Container, document: object) -> Result:
    """Run ``update --resources=-``, as containerd does."""
    with tempfile.TemporaryFile() as file:
        file.write(
            document.encode() if isinstance(document, str) else json.dumps(document).encode()
        )
        file.seek(0)
        return one.runtime("update", "--resources=-", one.id, stdin=file)


def value(one: Container, controller: str, v1: str, v2: str) -> str:
    return cgroupfs.setting(one.pid, controller, v1, v2)


def memory(one: Container) -> str:
    return value(one, "memory", "memory.limit_in_bytes", "memory.max")


def swap(one: Container) -> str:
    return value(one, "memory", "memory.memsw.limit_in_bytes", "memory.swap.max")


def pids(one: Container) -> str:
    return value(one, "pids", "pids.max", "pids.max")


@pytest.fixture
def one(container: MakeContainer, bundle: MakeBundle) -> Container:
    made = bundle()
    made.resources["memory"] = {"limit": 64 * MIB}
    made.resources["pids"] = {"limit": 100}
    return container(made).started()


@pytest.mark.parametrize(
    ("flags", "controller", "v1", "v2", "there"),
    [
        (["--memory", "50331648"], "memory", "memory.limit_in_bytes", "memory.max",
         {str(48 * MIB)}),
        (["--memory-reservation", str(32 * MIB)], "memory", "memory.soft_limit_in_bytes",
         "memory.low", {str(32 * MIB)}),
        (["--cpu-share", "512"], "cpu", "cpu.shares", "cpu.weight", {"512", "59"}),
        (["--cpu-quota", "50000"], "cpu", "cpu.cfs_quota_us", "cpu.max",
         {"50000", "50000 100000"}),
        (["--cpu-period", "50000"], "cpu", "cpu.cfs_period_us", "cpu.max", {"50000", "max 50000"}),
        (["--pids-limit", "20"], "pids", "pids.max", "pids.max", {"20"}),
        (["--cpuset-cpus", "0"], "cpuset", "cpuset.cpus", "cpuset.cpus", {"0"}),
        (["--cpuset-mems", "0"], "cpuset", "cpuset.mems", "cpuset.mems", {"0"}),
    ],
)  # fmt: skip
def test_flags(
    one: Container, flags: list[str], controller: str, v1: str, v2: str, there: set[str]
) -> None:
    if not cgroupfs.has(controller):
        pytest.skip(f"the kernel has no {controller} controller")
    update(one, *flags).silent()
    assert value(one, controller, v1, v2) in there
    assert one.status == "running"


@deviates(crun="takes no units")
def test_units(one: Container) -> None:
    update(one, "--memory", "50M").silent()
    assert memory(one) == str(50 * MIB)
    update(one, "--memory", "-1", "--pids-limit", "-1").silent()
    assert memory(one) in ("max", "9223372036854771712")
    assert pids(one) == "max"


def test_quota_and_period_change_each_by_itself(one: Container) -> None:
    update(one, "--cpu-quota", "50000", "--cpu-period", "50000").silent()
    update(one, "--cpu-quota", "20000").silent()
    assert value(one, "cpu", "cpu.cfs_period_us", "cpu.max") in ("50000", "20000 50000")
    update(one, "--cpu-period", "80000").silent()
    assert value(one, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("20000", "20000 80000")
    update(one, "--pids-limit", "50").silent()
    assert value(one, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("20000", "20000 80000")


@needs_swap_files
def test_memory_and_swap_up_and_down(one: Container) -> None:
    for limit, total in ((50, 80), (200, 300), (90, 90), (300, 900), (40, 60)):
        update(one, "--memory", str(limit * MIB), "--memory-swap", str(total * MIB)).silent()
        assert memory(one) == str(limit * MIB)
        expected = total - limit if cgroupfs.is_v2() else total
        assert swap(one) == str(expected * MIB)


@judge_by("ociruntime")
@needs_swap_files
def test_swap_counts_memory(one: Container) -> None:
    """The two limits belong together, also if only one of them changes."""
    update(one, "--memory-swap", "100M").silent()
    assert swap(one) == str((36 if cgroupfs.is_v2() else 100) * MIB)
    update(one, "--memory", "80M").silent()
    assert swap(one) == str((20 if cgroupfs.is_v2() else 100) * MIB)
    update(one, "--memory", "120M").failed("--memory-swap: 104857600 is below")
    assert memory(one) == str(80 * MIB)
    update(one, "--memory", "-1").silent()
    assert swap(one) in ("max", "9223372036854771712")


@pytest.mark.parametrize("status", ["created", "running", "paused"])
def test_status(container: MakeContainer, status: str) -> None:
    one = container().created()
    if status != "created":
        one.start().silent()
    if status == "paused":
        one.runtime("pause", one.id).silent()
    update(one, "--pids-limit", "33").silent()
    assert pids(one) == "33"
    assert one.status in (status, "created")


@deviates(crun="returns 0")
def test_stopped_container(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle("true")).started()
    one.wait()
    update(one, "--pids-limit", "33").failed("container not running")


@deviates(crun="a swap of 0 is written")
def test_document(one: Container) -> None:
    document = {
        "devices": [{"allow": True, "access": "rwm"}],
        "memory": {"limit": 48 * MIB, "reservation": 0, "swap": 0},
        "cpu": {"shares": 512, "quota": 0, "period": 0, "cpus": "", "mems": ""},
        "pids": {"limit": 77},
        "blockIO": {"weight": 0},
    }
    by_document(one, document).silent()
    assert (memory(one), pids(one)) == (str(48 * MIB), "77")


@judge_by("ociruntime", "runc")
def test_device_rules_stay(container: MakeContainer, bundle: MakeBundle) -> None:
    script = "while :; do (: </dev/kmsg) 2>/dev/null && echo open; sleep 0.01; done"
    made = bundle().shell(f"mknod /dev/kmsg c 1 11; echo ready; {script}")
    made.capabilities("CAP_MKNOD")
    one = container(made).started()
    one.wait_output("ready")
    for _ in range(5):
        by_document(one, {"devices": [{"allow": True}], "pids": {"limit": 50}}).silent()
    assert "open" not in one.output


def test_file_overrules_flags(one: Container) -> None:
    file = one.bundle.path / "resources.json"
    file.write_text(json.dumps({"pids": {"limit": 44}}))
    update(one, "--pids-limit", "55", "--resources", str(file)).silent()
    assert pids(one) == "44"


@judge_by("ociruntime")
def test_below_the_usage(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-MEM-06: refused, and no process is killed; also if config.json requests the check."""
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=32 2>/dev/null; echo full; sleep 1000"
    made = bundle().shell(script)
    made.resources["memory"] = {"limit": 128 * MIB, "checkBeforeUpdate": True}
    one = container(made).started()
    one.wait_output("full")
    words = "memory usage"
    update(one, "--memory", "16M", "--pids-limit", "20").failed(
        "--memory: ", "16777216 bytes", words
    )
    by_document(one, {"memory": {"limit": 16 * MIB}}).failed("resources.memory.limit: ", words)
    assert (memory(one), pids(one), one.status) == (str(128 * MIB), "max", "running")
    update(one, "--memory", "64M").silent()


@judge_by("ociruntime")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"memory": {"limit": "1M"}}', "resources.memory.limit: "),
        ('{"memory": {"limit": -2}}', "resources.memory.limit: "),
        ('{"memory": {"limit": 9000000, "swap": 8000000}}', "resources.memory.swap: "),
        ('{"cpu": {"quota": 10000, "burst": 20000}}', "resources.cpu.burst: "),
        ('{"hugepageLimits": [{"pageSize": "3KB"}]}', "resources.hugepageLimits[0]"),
        ("[]", "resources: "),
        ("", "standard input"),
        ('{"pids": {"limit": 5}', "standard input"),
        ('{"unified": {"a/b": "1"}}', 'resources.unified["a/b"]'),
    ],
)
def test_bad_document(one: Container, document: str, words: str) -> None:
    by_document(one, document).failed(words.partition('"')[0])
    assert (memory(one), pids(one)) == (str(64 * MIB), "100")


@judge_by("ociruntime")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--memory", "abc"], "invalid value for --memory: invalid size: 'abc'"),
        (["--memory", "1X"], "invalid size"),
        (["--memory-swap", "32M"], "--memory-swap: 33554432 is below"),
        (["--cpu-quota", "x"], "for flag -cpu-quota"),
        (["--cpu-quota", "5"], "--cpu-quota: write"),
        (["--cpuset-cpus", "4000"], "--cpuset-cpus: "),
        (["--cpuset-cpus", "a"], "--cpuset-cpus: "),
        (["--pids-limit", "-5"], "--pids-limit: "),
        (["--blkio-weight", "70000"], "--blkio-weight: "),
        (["--cpu-idle", "7"], "--cpu-idle: "),
        (["--l3-cache-schema", "L3:0=f"], "resctrl group"),
        (["--resources", "/no/file"], "/no"),
    ],
)
def test_bad_value_changes_nothing(one: Container, flags: list[str], words: str) -> None:
    update(one, "--pids-limit", "50", "--cpu-share", "300", *flags).failed(words)
    assert (memory(one), pids(one)) == (str(64 * MIB), "100")
    assert value(one, "cpu", "cpu.shares", "cpu.weight") in ("1024", "100")


@judge_by("ociruntime")
def test_refused_write_takes_the_others_back(one: Container) -> None:
    """The refused write comes last: memory is written at the end."""
    update(one, "--cpu-share", "300", "--cpu-quota", "30000", "--pids-limit", "50").silent()
    refused = {"unified": {"pids.max": "many"}} if cgroupfs.is_v2() else {"memory": {"limit": 4096}}
    document = {"cpu": {"shares": 400, "quota": 40000}, "pids": {"limit": 60}, **refused}
    by_document(one, document).failed("resources.")
    assert value(one, "cpu", "cpu.shares", "cpu.weight") in ("300", "39")
    assert value(one, "cpu", "cpu.cfs_quota_us", "cpu.max") in ("30000", "30000 100000")
    assert (memory(one), pids(one)) == (str(64 * MIB), "50")


@judge_by("ociruntime")
def test_kernel_memory_is_ignored_with_a_warning(one: Container) -> None:
    result = one.runtime("--log-level=warning", "update", "--kernel-memory=50M", one.id).ok()
    assert "--kernel-memory is ignored" in result.err


@judge_by("ociruntime")
def test_container_without_a_cgroup(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle()
    del made.linux["resources"]
    one = container(made)
    one.runtime = Runtime(one.runtime.path, one.runtime.root, "--cgroup-manager=disabled")
    one.started()
    update(one, "--pids-limit", "5").failed("cgroup of its")
    update(one).silent()


@deviates(crun=OWN_WORDS)
def test_unknown_container(one: Container) -> None:
    one.runtime("update", "--pids-limit", "5", "nobody").failed("does not exist")


INTERRUPTED_WHILE_STORING = """
import os, signal, sys
from ociruntime.runtime.cli.main import run_program
from ociruntime.runtime.lifecycle import update
store = update._store
def interrupted(*given):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    store(*given)
update._store = interrupted
sys.exit(run_program(sys.argv[2:]))
"""


@judge_by("ociruntime")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_leaves_no_half_of_an_update(one: Container, name: str) -> None:
    """Written but unrecorded limits would be undone by the next update."""
    arguments = one.runtime.command("update", "--memory", str(48 * MIB), one.id)[1:]
    program = [sys.executable, "-c", INTERRUPTED_WHILE_STORING, name, *arguments]
    done = subprocess.run(program, cwd="/", stdin=subprocess.DEVNULL, check=False)
    assert done.returncode != 0
    stored = one.runtime.root / one.id / "resources.json"
    assert json.loads(stored.read_text())["memory"]["limit"] == 48 * MIB
    assert memory(one) == str(48 * MIB)
