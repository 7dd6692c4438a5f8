"""Measure how a lifecycle's time grows with the configuration, and the cost of a seccomp filter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench import bundles as make
from bench.bundles import Bundles, Config
from bench.life import Container, turns
from bench.place import Failed
from bench.runtimes import Runtime

COUNTS = (10, 100, 1000, 2000)
SECCOMP_KINDS = ("first", "again", "none")
_seeds = count(1)  # no filter of this run is like another one


def kinds(bundles: Bundles, source: Path) -> dict[str, Callable[[int], Config]]:
    """Return title -> function that returns a config for a number of elements (mounts, rules)."""
    plain = bundles.plain
    return {
        "bind mounts": lambda number: make.with_bind_mounts(plain, number, source),
        "tmpfs mounts": lambda number: make.with_tmpfs(plain, number),
        "device rules": lambda number: make.with_devices(plain, number),
        "seccomp rules, known filter": lambda number: make.with_seccomp(plain, number, 0),
        "seccomp rules, new filter": lambda number: make.with_seccomp(plain, number, next(_seeds)),
    }


def measure(
    runtimes: list[Runtime], bundles: Bundles, rounds: int
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return milliseconds of create and delete by kind, runtime and number of elements.

    There are no times where the runtime failed to create the container.
    """
    source = bundles.root.parent / "source"
    source.mkdir(exist_ok=True)
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for kind, config in kinds(bundles, source).items():
        found[kind] = {runtime.name: {} for runtime in runtimes}
        for number in COUNTS:
            unable: set[str] = set()
            for runtime, counts in turns(runtimes, rounds, 1):
                if runtime.name in unable:
                    continue
                bundle = bundles.write("scaling", config(number))
                try:
                    took = create_and_delete(runtime, bundle)
                except Failed as error:
                    print(f"{kind}, {number}: {error}", file=sys.stderr)
                    unable.add(runtime.name)
                    found[kind][runtime.name].pop(str(number), None)
                    continue
                if counts:
                    found[kind][runtime.name].setdefault(str(number), []).append(took)
    return found


def create_and_delete(runtime: Runtime, bundle: Path) -> float:
    """Create and delete a container; return the milliseconds of both together.

    Raises Failed, but leaves no container behind.
    """
    container = Container(runtime, bundle)
    try:
        created = container.create()
    except Failed:
        runtime.spawn.all([runtime.words("delete", "--force", container.name)])
        raise
    return created.wall + container.end().wall


def measure_seccomp(
    runtimes: list[Runtime], bundles: Bundles, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of create and start with the profile and without, by runtime.

    ``first`` is in a state root that has never seen the profile, ``again`` in one that has.
    """
    profile = dict(bundles.plain, linux=dict(bundles.plain["linux"]))
    profile["linux"]["seccomp"] = bundles.docker["linux"]["seccomp"]
    with_filter = bundles.write("filter", profile)
    none = bundles.write("none", bundles.plain)
    found: dict[str, dict[str, list[float]]] = {
        runtime.name: {kind: [] for kind in SECCOMP_KINDS} for runtime in runtimes
    }
    for runtime, counts in turns(runtimes, rounds, 1):
        runtime.empty_root()
        for kind in SECCOMP_KINDS:
            container = Container(runtime, none if kind == "none" else with_filter)
            took = container.create().wall + container.call("start").wall
            container.end()
            if counts:
                found[runtime.name][kind].append(took)
    return found
