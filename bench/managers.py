"""Measure the daily commands of ``ocictl``, beside ``docker`` and ``podman`` with the same image.

They take turns; the containers have no network. Times are those of the whole client command:

- ``run``: ``run --rm`` of ``true``.
- ``create``: one ``create`` after another.
- ``create, 8 at once``: eight concurrent ``create``, per container.
- ``ps``, ``ps --all``: with all the containers of this benchmark, which were never started.

Memory is the sum of the PSS of the daemon's processes with these containers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.crowd import elapsed
from bench.document import Managers
from bench.life import turns
from bench.place import ENVIRONMENT, Failed, Namespace, Spawner, build_spawner, find_program
from bench.pod_engines import Ocictl, Ocipod, make_image, podman_of
from bench.pods import proportional_kib
from bench.runtimes import make_snapshot
from tests.engines import host
from tests.engines.command import execute
from tests.engines.docker import Docker, two_runtimes
from tests.engines.image import NAME
from tests.support import processes

CONCURRENT = 8
STEP = 5 * CONCURRENT  # containers that a manager creates in each turn, in each of both ways
WARMUP = 2


@dataclass
class Manager:
    """A container manager: its client's command line and, if it has a daemon, the daemon's PID.

    ``place`` are the client's options that say where (a parent cgroup) its containers go.
    """

    name: str
    client: list[str]
    image: str
    place: list[str]
    spawn: Spawner
    daemon: int = 0

    def new(self, *verb: str) -> list[str]:
        """Return the arguments of a new container for ``verb``, such as ``run`` and ``--rm``."""
        return [*verb, "--network=none", *self.place, self.image, "true"]

    def time(self, arguments: list[str], count: int = 1) -> list[float]:
        """Run a command ``count`` times, one after another; return the milliseconds of each."""
        return [self.spawn(*self.client, *arguments).wall for _ in range(count)]

    def memory(self) -> float:
        """Return the PSS of the daemon and the processes below it, in KiB; 0 without a daemon."""
        pids = {self.daemon, *processes.descendants(self.daemon)} if self.daemon else set()
        return sum(proportional_kib(pid) for pid in pids)


def measure(programs: Path, runtime: str, place: Path, rounds: int, count: int) -> Managers:
    """Measure with ``count`` containers in each manager.

    ``programs`` is the directory of ``ocictl``, ``runtime`` is what docker and podman run on.
    """
    with ExitStack() as stack:
        managers = _managers(programs, Path(runtime), place, stack)
        found: Managers = {
            "count": count,
            "times": {manager.name: {} for manager in managers},
            "memory": {},
        }

        def measure_times(what: str, rounds: int, step: Callable[[Manager], list[float]]) -> None:
            for manager, counts in turns(managers, rounds, WARMUP):
                times = step(manager)
                if counts:
                    found["times"][manager.name].setdefault(what, []).extend(times)

        batches = max(1, count // (2 * STEP) - WARMUP)
        measure_times("run", rounds, lambda manager: manager.time(manager.new("run", "--rm")))
        measure_times("create", batches, lambda manager: manager.time(manager.new("create"), STEP))
        measure_times(f"create, {CONCURRENT} at once", batches, _at_once)
        measure_times("ps", rounds, lambda manager: manager.time(["ps"]))
        measure_times("ps --all", rounds, lambda manager: manager.time(["ps", "--all"]))
        found["memory"] = {manager.name: manager.memory() for manager in managers}
    return found


def _at_once(manager: Manager) -> list[float]:
    """Create STEP containers, some at once; return the milliseconds for each container."""
    times = []
    command = [*manager.client, *manager.new("create")]
    for _ in range(STEP // CONCURRENT):
        costs = manager.spawn.all([command] * CONCURRENT)
        if any(cost.status for cost in costs):
            raise Failed(f"{manager.name}: create: {manager.spawn.last_output()}")
        times.append(elapsed(costs) / CONCURRENT)
    return times


def _managers(programs: Path, runtime: Path, place: Path, stack: ExitStack) -> list[Manager]:
    """Start ocid and dockerd; return the managers that are installed, ours first."""
    make_image(place).write_docker_archive(place / "docker.tar")
    spawner = build_spawner(place)
    overlay = host.has_overlay(place / "overlay")
    cgroup = stack.enter_context(host.parent_cgroup(f"{place.parent.name}-managers"))

    def spawn(name: str, env: dict[str, str], namespace: Namespace | None = None) -> Spawner:
        found = Spawner(spawner, place / f"output-{name}", namespace, env)
        stack.callback(found.close)
        return found

    pods = Ocipod("ocipod", programs, place / "layout", place / "ours")
    make_snapshot(programs / "ociruntime", pods.namespace)
    own = Ocictl("ocictl", programs, place / "layout", pods)
    stack.callback(own.stop)
    stack.callback(own.remove_all)
    with own.namespace.entered():
        execute([*own.base, "load", "--input", str(place / "docker.tar")], own.env, place).ok()
    found = [
        Manager(
            own.name, own.base, NAME, [], spawn("ocictl", ENVIRONMENT, own.namespace),
            own.daemon.pid,
        )
    ]  # fmt: skip
    if docker := _docker(runtime, place, "overlay2" if overlay else "vfs", cgroup, stack):
        pid = docker.daemon.pid
        found.append(
            Manager("docker", [docker.program], NAME, [], spawn("docker", docker.env), pid)
        )
    if podman := podman_of(runtime, place, "overlay" if overlay else "vfs", cgroup):
        stack.callback(podman.tidy)
        where = [f"--cgroup-parent={podman.cgroup}"]
        found.append(Manager("podman", [podman.program], NAME, where, spawn("podman", podman.env)))
    return found


def _docker(
    runtime: Path, place: Path, driver: str, cgroup: str, stack: ExitStack
) -> Docker | None:
    """Start dockerd with the image in its store; None if it is not installed."""
    daemon, client = find_program("dockerd"), find_program("docker")
    if not (daemon and client):
        return None
    home = place / "docker"
    home.mkdir()
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    docker = Docker(daemon, client, two_runtimes(home, runtime), home, driver, cgroup)
    stack.callback(host.unmount_below, home)
    stack.callback(docker.daemon.stop)
    stack.callback(docker.tidy)
    docker("load", "--input", str(place / "docker.tar")).ok()
    return docker
