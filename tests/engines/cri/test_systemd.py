"""Pods with systemd's cgroup driver, as kubeadm configures it: each container is a scope."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import HANDLERS, MakePod
from tests.engines.cri.pod import EXITED, Pod
from tests.engines.scripts import MIB
from tests.support import cgroupfs, processes, systemd

pytestmark = pytest.mark.skipif(
    not systemd.booted() or not cgroupfs.is_v2(),
    reason="needs systemd and cgroup v2, as in the v2 box",
)
LIMITS = {"memory_limit_in_bytes": 64 * MIB, "cpu_quota": 50000, "cpu_period": 100000}
# More than the limit of the container. The first process stays: with it the cgroup would go, and
# with that the event, which containerd's shim may not have read.
TOO_MUCH = "sh -c 'x=$(yes | head -c 100000000); echo survived'; status=$?; sleep 1; exit $status"


def scope(container: str) -> str:
    return f"cri-containerd-{container}.scope"


def cgroup(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


def limits(cri: Cri, container: str) -> dict[str, str]:
    """Return the container's limits according to systemd and to the kernel."""
    place = cgroupfs.directory(cri.pid(container), "")
    files = {name: (place / name).read_text().strip() for name in ("memory.max", "cpu.max")}
    return files | systemd.properties(
        scope(container), "Slice", "MemoryMax", "CPUQuotaPerSecUSec", "ActiveState"
    )


@pytest.fixture(params=HANDLERS)
def handler(request: pytest.FixtureRequest) -> str:
    """Each runtime: these tests run in only one environment."""
    name: str = request.param
    return name


def test_limits_and_their_change(cri_host: Cri, pod: Pod) -> None:
    """Systemd must know the new limits, too: the next reload would undo the resize."""
    assert cgroup(cri_host.pid(pod.id)) == f"{cri_host.cgroup}/{scope(pod.id)}"
    one = pod.run("one", "sleep", "1000", resources=LIMITS)
    assert cgroup(cri_host.pid(one)) == f"{cri_host.cgroup}/{scope(one)}"
    expected = {
        "memory.max": str(64 * MIB),
        "MemoryMax": str(64 * MIB),
        "cpu.max": "50000 100000",
        "CPUQuotaPerSecUSec": "500ms",
        "Slice": cri_host.cgroup.strip("/"),
        "ActiveState": "active",
    }
    assert limits(cri_host, one) == expected
    more = {"memory_limit_in_bytes": 96 * MIB, "cpu_quota": 20000, "cpu_period": 100000}
    cri_host.UpdateContainerResources(container_id=one, linux=more)
    expected |= {"memory.max": str(96 * MIB), "MemoryMax": str(96 * MIB)}
    expected |= {"cpu.max": "20000 100000", "CPUQuotaPerSecUSec": "200ms"}
    assert limits(cri_host, one) == expected
    systemd.systemctl("daemon-reload")
    assert limits(cri_host, one) == expected


def test_execution(cri_host: Cri, pod: Pod) -> None:
    """A probe runs in the container's scope."""
    one = pod.run("one", "sleep", "1000")
    status, out, _ = pod.execute(one, "sh", "-c", "cat /proc/self/cgroup; exit 7")
    # The scope is the root of the container's cgroup namespace.
    assert (status, out) == (7, "0::/\n")
    assert cri_host.ContainerStats(container_id=one).stats.memory.working_set_bytes.value > 0


def test_ends(cri_host: Cri, make_pod: MakePod, handler: str) -> None:
    """After an OOM kill or a signal, the scopes of container and sandbox are removed."""
    pod = make_pod(handler)
    big = pod.run("big", "sh", "-c", TOO_MUCH, resources={"memory_limit_in_bytes": 16 * MIB})
    ended = pod.await_state(big, EXITED)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
    one = pod.run("one", "sleep", "1000")
    cri_host.StopContainer(container_id=one, timeout=1)
    assert pod.await_state(one, EXITED).exit_code == 137
    cri_host.RemoveContainer(container_id=one)
    cri_host.StopPodSandbox(pod_sandbox_id=pod.id)
    assert processes.until(lambda: not systemd.units("cri-containerd-"))


def test_privileged_with_the_host_s_cgroup_namespace(cri_host: Cri, make_pod: MakePod) -> None:
    """A pod without a cgroup namespace sees the whole hierarchy.

    The host's mount is not changed: runc 1.1 mounts cgroup v2 anew, which clears `nsdelegate` on
    the host.
    """
    host = mount_of("self")
    pod = make_pod("ociruntime", privileged=True)
    one = pod.run("one", "sleep", "1000", security={"privileged": True})
    pid = cri_host.pid(one)
    assert os.readlink(f"/proc/{pid}/ns/cgroup") == os.readlink("/proc/self/ns/cgroup")
    assert mount_of(pid)[0] == "/"
    seen = Path(f"/proc/{pid}/root/sys/fs/cgroup{cgroup(pid)}/cgroup.procs").read_text()
    assert str(pid) in seen.split()
    assert mount_of("self") == host
    assert "nsdelegate" in host[1].split(",")


def mount_of(pid: int | str) -> tuple[str, str]:
    """Return the root of a process's cgroup v2 mount, and its filesystem's options."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        if fields.split()[4] == "/sys/fs/cgroup":
            return fields.split()[3], tail.split()[2]
    raise AssertionError(f"{pid} has no cgroup mount")
