"""Benchmark of many containers at once: start all concurrently, then delete all concurrently."""

from __future__ import annotations

from bench.bundles import Bundles
from bench.document import Crowd
from bench.life import Container, turns
from bench.place import NAME, Cost, await_child
from bench.runtimes import Runtime


def measure(runtimes: list[Runtime], bundles: Bundles, count: int, rounds: int) -> dict[str, Crowd]:
    """Return the wall times from the first start to the last end, in milliseconds."""
    bundle = bundles.write("crowd", bundles.plain)
    found: dict[str, Crowd] = {
        runtime.name: {"count": count, "create": [], "delete": [], "failures": 0}
        for runtime in runtimes
    }
    for runtime, _ in turns(runtimes, rounds, 0):
        crowd = found[runtime.name]
        containers = [Container(runtime, bundle, f"{NAME}-{number}") for number in range(count)]
        costs = runtime.spawn.all([container.create_words() for container in containers])
        crowd["create"].append(elapsed(costs))
        made = [
            container for container, cost in zip(containers, costs, strict=True) if cost.status == 0
        ]
        failed = [container for container in containers if container not in made]
        crowd["failures"] += len(failed) + _end(runtime, made, crowd)
        for container in failed:
            runtime.spawn.all([runtime.words("delete", "--force", container.name)])
    return found


def _end(runtime: Runtime, made: list[Container], crowd: Crowd) -> int:
    """Kill and delete the containers; return the number of failures."""
    runtime.spawn.all([runtime.words("kill", container.name, "KILL") for container in made])
    for container in made:
        await_child(container.pid)
    costs = runtime.spawn.all([runtime.words("delete", container.name) for container in made])
    if costs:
        crowd["delete"].append(elapsed(costs))
    return sum(cost.status != 0 for cost in costs)


def elapsed(costs: list[Cost]) -> float:
    """Return the milliseconds from the first beginning to the last end."""
    return max(cost.ended for cost in costs) - min(cost.began for cost in costs)
