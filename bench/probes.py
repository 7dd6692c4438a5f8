"""Measure what a runtime costs a node of Kubernetes, below containerd's CRI plugin.

Probes: a pod of each runtime gets a number of ExecSync calls a second, as from the kubelet's exec
probes. The runtimes take turns, a minute each. A call's time is the client's. CPU time is that of a
cgroup that contains containerd, the shims, the runtimes and all containers, divided by the calls.
After each minute memory, descriptors and threads of the pod's shim are recorded, and the processes,
mounts, cgroups and files that are new.

Pods: each round starts one with one container and removes it; CPU time is that of the same cgroup.
Some stay: the memory of their processes, and what the runtime keeps for them in its state root.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.document import NodePods, Probes, ShimSize
from bench.life import turns
from bench.place import NAME, Failed, Namespace, find_program
from bench.pod_engines import make_image
from bench.pods import program_of, proportional_kib
from bench.runtimes import make_snapshot, version_of
from tests.engines import host
from tests.engines.cri.client import PAUSE, Cri, Installation, installation, recent
from tests.engines.cri.pod import Pod
from tests.engines.image import Image
from tests.engines.installed import at_its_place
from tests.support import cgroupfs, leaks, processes, rootfs

PROBE = ("true",)
MINUTE = 60.0
CALLERS = 16  # the kubelet has one goroutine a probe
WARMUP = 2
IDLE = ("sleep", "100000")
STATE = Path("/run/containerd/runc/k8s.io")


@dataclass
class Node:
    """containerd with both runtimes; ``group`` is the cgroup directory that accounts for all."""

    cri: Cri
    names: dict[str, str]  # handler -> name and version of the runtime
    group: Path

    def cpu(self) -> float:
        """Return the milliseconds of CPU time that everything has used."""
        v1 = self.group / "cpuacct.usage"
        if v1.exists():
            return int(v1.read_text()) / 1e6
        fields = (self.group / "cpu.stat").read_text().split()
        return int(fields[fields.index("usage_usec") + 1]) / 1e3


@contextmanager
def node(ours: Path, place: Path) -> Iterator[Node | None]:
    """Start containerd with ``ours`` and a runc; yield None if it is not installed."""
    installed = recent() or _of_distribution()
    if installed is None:
        yield None
        return
    with ExitStack() as stack:
        parent = stack.enter_context(host.parent_cgroup(f"{NAME}-node"))
        stack.enter_context(at_its_place(ours))
        stack.callback(host.unmount_below, place)
        for name in ("/run/containerd/runc", "/run/containerd/s"):
            Path(name).mkdir(parents=True, exist_ok=True)  # the subject pods may have made it
        make_snapshot(ours, Namespace())
        overlay = host.has_overlay(place / "overlay")
        driver = "overlayfs" if overlay else "native"
        programs = {"ociruntime": str(ours), "runc": str(installed.runc)}
        cri = Cri(installed, place, driver, f"{parent}/pods", programs)
        stack.callback(cri.close)
        _load_images(cri, place)
        hierarchy = cgroupfs.hierarchies()["" if cgroupfs.is_v2() else "cpuacct"]
        group = hierarchy / parent.lstrip("/")
        (group / "engine").mkdir()
        (group / "engine/cgroup.procs").write_text(str(cri.daemon.pid))
        names = {name: version_of(Path(path)) for name, path in programs.items()}
        yield Node(cri, names, group)


def _of_distribution() -> Installation | None:
    containerd, runc = find_program("containerd"), find_program("runc")
    return installation(containerd, runc) if containerd and runc else None


def _load_images(cri: Cri, place: Path) -> None:
    rootfs.build(place / "pause", {"bin/busybox": rootfs.BUSYBOX})
    for one in (make_image(place), Image(place / "pause", PAUSE, IDLE)):
        one.write_oci_archive(place / "image.tar")
        cri.load(place / "image.tar", one.name)


class ProbedPod:
    """A pod with one container that is probed."""

    def __init__(self, made: Node, handler: str) -> None:
        self.cri = made.cri
        self.pod = Pod(self.cri, handler, name=f"probed-{handler}")
        self.container = self.pod.run("probed", *IDLE)
        self.shim = processes.parent(self.cri.pid(self.container))

    def probe(self) -> float:
        """Return the milliseconds of one probe; raises Failed if it fails."""
        began = time.perf_counter()
        done = self.cri.ExecSync(container_id=self.container, cmd=PROBE, timeout=10)
        if done.exit_code != 0:
            raise Failed(f"a probe failed: {done}")
        return (time.perf_counter() - began) * 1e3

    def size(self) -> ShimSize:
        """Return the size of the shim."""
        process = Path(f"/proc/{self.shim}")
        return {
            "memory": proportional_kib(self.shim),
            "descriptors": len(os.listdir(process / "fd")),
            "threads": len(os.listdir(process / "task")),
            "children": len(processes.descendants(self.shim)),
        }


def at_rate(call: Callable[[], float], rate: int, seconds: float) -> list[float]:
    """Make ``rate`` calls a second, whether or not the earlier ones are done; return their times.

    Raises Failed if a call fails.
    """
    with ThreadPoolExecutor(CALLERS) as callers:
        began = time.perf_counter()
        calls = []
        for number in range(int(rate * seconds)):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            calls.append(callers.submit(call))
        return [one.result() for one in calls]


def measure(ours: Path, place: Path, rate: int, minutes: int, rounds: int) -> Probes | None:
    """Measure probes for some minutes, and the pods of a node; None without containerd."""
    with node(ours, place) as made:
        if made is None:
            return None
        pods = measure_pods(made, rounds)
        found: Probes = {
            "engine": f"containerd {'.'.join(map(str, made.cri.installed.version))}",
            "rate": rate,
            "minutes": minutes,
            "times": {name: [] for name in made.names.values()},
            "cpu": {name: [] for name in made.names.values()},
            "shim": {},
            "left": {name: [] for name in made.names.values()},
            "pods": pods,
        }
        measure_probes(made, found)
    return found


def measure_probes(made: Node, found: Probes) -> None:
    """Probe a pod of each runtime in turns; add the results."""
    probed = {name: ProbedPod(made, handler) for handler, name in made.names.items()}
    for pod in probed.values():
        # The first ones have files and caches to make.
        at_rate(pod.probe, found["rate"], 2)
    before = settled_snapshot()
    for name, pod in probed.items():
        found["shim"][name] = [pod.size()]
    for (name, pod), _ in turns(list(probed.items()), found["minutes"], 0):
        began = made.cpu()
        times = at_rate(pod.probe, found["rate"], MINUTE)
        found["times"][name].append(times)
        found["cpu"][name].append((made.cpu() - began) / len(times))
        after = settled_snapshot()
        found["shim"][name].append(pod.size())
        found["left"][name] += leaks.difference(before, after)
        before = after
    for pod in probed.values():
        pod.pod.remove()


def settled_snapshot() -> leaks.Snapshot:
    """Return what there is a second after the last probe, when everything has ended that will."""
    time.sleep(1)
    processes.reap_orphans()
    return leaks.snapshot(STATE, NAME)


def measure_pods(made: Node, rounds: int) -> dict[str, NodePods]:
    """Measure starting and removing pods with one container, and some that keep running."""
    found: dict[str, NodePods] = {
        name: {"up": [], "down": [], "cpu_up": [], "cpu_down": [], "memory": {}, "state": 0.0}
        for name in made.names.values()
    }
    for (handler, name), counts in turns(list(made.names.items()), rounds, WARMUP):
        marks = [(time.perf_counter() * 1e3, made.cpu())]
        pod = Pod(made.cri, handler)
        pod.run("one", *IDLE)
        marks.append((time.perf_counter() * 1e3, made.cpu()))
        pod.remove()
        marks.append((time.perf_counter() * 1e3, made.cpu()))
        if counts:
            own = found[name]
            for kind, (first, second) in (("up", marks[:2]), ("down", marks[1:])):
                own[kind].append(second[0] - first[0])  # type: ignore[literal-required]
                own[f"cpu_{kind}"].append(second[1] - first[1])  # type: ignore[literal-required]
    for handler, name in made.names.items():
        _measure_running(made, handler, found[name], max(4, rounds // 2))
    return found


def _measure_running(made: Node, handler: str, found: NodePods, count: int) -> None:
    """Measure ``count`` running pods, per pod in KiB."""
    processes.reap_orphans()
    before = processes.descendants()
    pods = [Pod(made.cri, handler, name=f"idle{number}") for number in range(count)]
    for pod in pods:
        pod.run("one", *IDLE)
    sizes: Counter[str] = Counter()
    for pid in processes.descendants() - before:
        sizes[program_of(pid)] += proportional_kib(pid)
    found["memory"] = {name: size / count for name, size in sizes.items()}
    found["state"] = sum(_kept_kib(STATE / id) for pod in pods for id in (pod.id, *pod.containers))
    found["state"] /= count
    for pod in pods:
        pod.remove()


def _kept_kib(directory: Path) -> float:
    """Return the room that a container's files take in the state root."""
    return sum(path.lstat().st_blocks for path in directory.rglob("*")) / 2
