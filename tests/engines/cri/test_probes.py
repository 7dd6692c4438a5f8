"""Exec probes: hundreds of processes in a container leave nothing behind in shim and node.

`./dev bench probes` measures them for longer.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import OURS_FIRST
from tests.engines.cri.pod import Pod
from tests.support import cgroupfs, leaks, processes

STATE = Path("/run/containerd/runc/k8s.io")
AT_ONCE = 4
# Pipes, sockets and timers of the shim's own come and go.
SPARE = 8


def entries(*places: Path) -> set[str]:
    """Return the paths of all files below these directories."""
    return {str(path) for place in places for path in place.rglob("*")}


def kept(cri: Cri, pod: Pod, container: str) -> dict[str, set[str]]:
    """Return what probes could leave behind: processes, files, cgroups and mounts."""
    shim = processes.parent(cri.pid(container))
    return {
        "processes": {str(pid) for pid in processes.descendants(shim)},
        "files": entries(STATE, cri.tasks()),
        "cgroups": {str(path) for path in cgroupfs.named(cri.cgroup.strip("/"))},
        "mounts": set(leaks.mount_table().values()),
        "processes inside": set(pod.shell(container, "ps -o pid | wc -l").split()),
    }


def run_probes(cri: Cri, pod: Pod, container: str, count: int) -> None:
    """Run probes of which some succeed, some fail, some cannot start, and some time out."""
    words = (["true"], ["false"], ["no-such-program"], ["sleep", "1001"])

    def call(number: int) -> str:
        kind = number % 20 if number % 20 < len(words) else 0
        try:
            done = cri.ExecSync(container_id=container, cmd=words[kind], timeout=int(kind == 3))
        except cri.Error as error:
            return f"{words[kind][0]} {str(error).split('status = ')[1].split()[0]}"
        return f"{words[kind][0]} {done.exit_code}"

    with ThreadPoolExecutor(AT_ONCE) as callers:
        seen = set(callers.map(call, range(count)))
    assert {"true 0", "false 1", "sleep StatusCode.DEADLINE_EXCEEDED"} < seen
    assert len(seen) == len(words)


@pytest.mark.parametrize(
    "count", [pytest.param(60), pytest.param(2000, marks=pytest.mark.long)], ids=str
)
@pytest.mark.parametrize("handler", OURS_FIRST)
def test_probes_leave_nothing(cri_host: Cri, pod: Pod, count: int) -> None:
    one = pod.run("one", "sleep", "1000")
    shim = processes.parent(cri_host.pid(one))
    run_probes(cri_host, pod, one, 20)
    before = kept(cri_host, pod, one)
    descriptors = len(os.listdir(f"/proc/{shim}/fd"))
    run_probes(cri_host, pod, one, count)
    # The last process that was killed may still be on its way.
    assert processes.until(lambda: kept(cri_host, pod, one) == before), (
        kept(cri_host, pod, one),
        before,
    )
    assert len(os.listdir(f"/proc/{shim}/fd")) <= descriptors + SPARE
