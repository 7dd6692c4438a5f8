"""Limits, in-place resize, statistics, exit codes, reasons and termination messages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both, MakePod
from tests.engines.cri.pod import EXITED, RUNNING, Pod
from tests.engines.scripts import MIB
from tests.support import cgroupfs, processes
from tests.support.criu import working_criu

FILES = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.max"),
    "shares": ("cpu", "cpu.shares", "cpu.weight"),
    "quota": ("cpu", "cpu.cfs_quota_us", "cpu.max"),
    "cpus": ("cpuset", "cpuset.cpus", "cpuset.cpus"),
}
# More than the limit of the container.
TOO_MUCH = "x=$(yes | head -c 100000000); echo survived"
LIMITS = {"memory_limit_in_bytes": 16 * MIB}


def limits_of(cri: Cri, container: str) -> dict[str, str]:
    """Return the limits of the container's cgroup."""
    pid = cri.pid(container)
    found = {name: cgroupfs.setting(pid, *files) for name, files in FILES.items()}
    found["oom_score_adj"] = Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    return found


def test_limits_and_their_change(cri_host: Cri, both: Both) -> None:
    """In-place resize: one limit at a time, up and down; the others stay."""
    steps: list[dict[str, Any]] = [
        {"memory_limit_in_bytes": 96 * MIB},
        {"memory_limit_in_bytes": 48 * MIB},
        {"cpu_quota": 20000, "cpu_period": 100000},
        {"cpu_quota": 150000, "cpu_period": 100000},
        {"cpu_shares": 2048},
        {"cpu_shares": 2},
        {"cpuset_cpus": "0"},
        {"cpu_quota": -1, "cpu_period": 100000},
    ]
    first = {
        "memory_limit_in_bytes": 64 * MIB,
        "cpu_shares": 512,
        "cpu_quota": 50000,
        "cpu_period": 100000,
        "oom_score_adj": 500,
    }

    def look(pod: Pod) -> list[dict[str, str]]:
        one = pod.run("one", "sleep", "1000", resources=first)
        found = [limits_of(cri_host, one)]
        for step in steps:
            cri_host.UpdateContainerResources(container_id=one, linux=step)
            found.append(limits_of(cri_host, one))
        return found

    seen = both(look)
    assert [one["memory"] for one in seen[:3]] == [str(n * MIB) for n in (64, 96, 48)]
    assert seen[0]["oom_score_adj"] == "500"
    assert [one["quota"].split()[0] for one in seen[2:5]] == ["50000", "20000", "150000"]
    assert seen[7]["cpus"] == "0"
    assert seen[8]["quota"].split()[0] in ("-1", "max")


@pytest.mark.long
def test_change_below_what_is_used(cri_host: Cri, both: Both) -> None:
    """A memory limit below the usage is refused or kills, the same as below runc."""

    def look(pod: Pod) -> tuple[str, int]:
        script = "x=$(yes | head -c 12000000); echo ready; while :; do sleep 0.02; done"
        one = pod.run("one", "sh", "-c", script, resources={"memory_limit_in_bytes": 64 * MIB})
        assert processes.until(lambda: pod.log("one") == ["stdout ready"])
        smaller = {"memory_limit_in_bytes": 6 * MIB}
        try:
            cri_host.UpdateContainerResources(container_id=one, linux=smaller)
        except cri_host.Error:
            # The limit in the kernel has not changed.
            return "refused " + limits_of(cri_host, one)["memory"], pod.status(one).state
        return "accepted", pod.status(one).state

    seen = both(look)
    if not cgroupfs.is_v2():
        assert seen == (f"refused {64 * MIB}", RUNNING)


@pytest.mark.long
def test_update_of_what_has_exited(cri_host: Cri, both: Both) -> None:
    """The kubelet may resize a container that exits at the same moment."""

    def look(pod: Pod) -> bool:
        one = pod.run("one", "true")
        pod.await_state(one, EXITED)
        try:
            cri_host.UpdateContainerResources(
                container_id=one, linux={"memory_limit_in_bytes": 96 * MIB}
            )
        except cri_host.Error:
            return False
        return True

    both(look)


def test_statistics(cri_host: Cri, both: Both) -> None:
    """The statistics in the kubelet's summary and in `kubectl top`."""

    def look(pod: Pod) -> list[str]:
        script = "x=$(yes | head -c 8000000); echo ready; while :; do :; done"
        one = pod.run("one", "sh", "-c", script, resources={"memory_limit_in_bytes": 64 * MIB})
        assert processes.until(lambda: pod.log("one") == ["stdout ready"], 30)
        first = cri_host.ContainerStats(container_id=one).stats
        assert processes.until(
            lambda: (
                cri_host.ContainerStats(container_id=one).stats.cpu.usage_core_nano_seconds.value
                > first.cpu.usage_core_nano_seconds.value
            ),
            30,
        )
        memory = first.memory
        assert 8_000_000 <= memory.working_set_bytes.value <= 64 * MIB
        assert memory.working_set_bytes.value + memory.available_bytes.value <= 64 * MIB
        assert memory.page_faults.value > 1000
        return [field.name for field, _ in memory.ListFields()]

    assert "working_set_bytes" in both(look)


def test_ends(both: Both) -> None:
    """Exit codes and reasons: exited, killed by a signal, OOM-killed."""
    scripts = {
        "success": "exit 0",
        "status": "exit 42",
        "signal": "kill -SEGV $$",
        "killed": "kill -KILL $$",
        "oom": TOO_MUCH,
    }

    def look(pod: Pod) -> dict[str, tuple[int, str]]:
        found = {}
        for name, script in scripts.items():
            # The init is a shell that cannot signal itself to death: a child's end is its own.
            command = ("sh", "-c", f"sh -c '{script}'; exit $?")
            resources = LIMITS if name == "oom" else {}
            ended = pod.await_state(pod.run(name, *command, resources=resources), EXITED)
            found[name] = ended.exit_code, ended.reason
        return found

    seen = both(look)
    assert seen["success"] == (0, "Completed")
    assert seen["status"] == (42, "Error")
    assert seen["signal"] == (139, "Error")
    assert seen["killed"] == (137, "Error")


def test_oom_killed(both: Both) -> None:
    """If the init itself is OOM-killed, the status says so."""

    def look(pod: Pod) -> tuple[int, str]:
        one = pod.run("one", "sh", "-c", TOO_MUCH, resources=LIMITS)
        ended = pod.await_state(one, EXITED)
        return ended.exit_code, ended.reason

    assert both(look) == (137, "OOMKilled")


def test_termination_message(both: Both, work: Path) -> None:
    """The kubelet mounts a file for it, which outlives the container."""

    def look(pod: Pod) -> tuple[int, str]:
        file = work / f"message-{pod.handler}"
        file.touch(0o666)
        mount = {"container_path": "/dev/termination-log", "host_path": str(file)}
        script = "echo the reason >/dev/termination-log; exit 3"
        one = pod.run("one", "sh", "-c", script, mounts=[mount])
        ended = pod.await_state(one, EXITED)
        return ended.exit_code, file.read_text()

    assert both(look) == (3, "the reason\n")


def test_restart_policy(both: Both) -> None:
    """A new attempt with the same name replaces a container that has exited."""

    def look(pod: Pod) -> list[int]:
        codes = []
        for attempt in range(3):
            metadata = {"name": "one", "attempt": attempt}
            one = pod.run("one", "sh", "-c", f"exit {attempt}", metadata=metadata)
            codes.append(pod.await_state(one, EXITED).exit_code)
        return codes

    assert both(look) == [0, 1, 2]


def test_checkpoint(cri_host: Cri, make_pod: MakePod, handler: str, work: Path) -> None:
    """`kubectl` forensic checkpoints: the container keeps running, the archive is on the node."""
    archive = work / "checkpoint.tar"
    if cri_host.installed.version < (2, 1):
        pytest.skip(f"containerd {cri_host.installed.version} has no checkpoints in CRI")
    criu = working_criu()
    if shutil.which("criu", path=cri_host.env["PATH"]) != criu:
        pytest.skip(f"the criu on containerd's PATH does not work here, only {criu}")
    pod = make_pod(handler)
    one = pod.run("one", "sh", "-c", "while :; do sleep 0.1; done")
    cri_host.CheckpointContainer(container_id=one, location=str(archive), timeout=60)
    assert archive.stat().st_size > 0
    assert pod.status(one).state == RUNNING
    assert pod.execute(one, "true")[0] == 0
