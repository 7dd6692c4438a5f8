"""The options of ``run``, ``create`` and ``update`` that limit memory, CPU time and processes."""

from __future__ import annotations

from typing import Any, TypeAlias

from ociruntime.commandline import container_values
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.sizes import byte_count, milli_cpus

Spec: TypeAlias = dict[str, Any]

LIMIT_OPTIONS = (
    Option("memory", "memory limit", "SIZE", short="m"),
    Option(
        "memory-swap",
        "limit of memory and swap together, or -1",
        "SIZE",
        details="Requires --memory. -1 means unlimited swap.",
    ),
    Option(
        "memory-reservation",
        "soft memory limit",
        "SIZE",
        details="If the host is short of memory, memory above this limit is reclaimed first.",
    ),
    Option("cpus", "number of CPUs: 0.5, 2", "N"),
    Option("cpu-shares", "relative share of CPU time", "N", kind="number", short="c"),
    Option(
        "cpu-quota",
        "CPU time per period, in microseconds",
        "MICROSECONDS",
        kind="number",
        details="Same limit as --cpus, which is the quota divided by the period.",
    ),
    Option(
        "cpu-period",
        "period of --cpu-quota (default: 100000)",
        "MICROSECONDS",
        kind="number",
    ),
    Option("cpuset-cpus", "CPUs to run on: 0-2,7", "LIST"),
    Option("cpuset-mems", "memory nodes to use: 0,1", "LIST"),
    Option("pids-limit", "maximum number of processes", "N", kind="number"),
    Option("oom-score-adj", "OOM score adjustment (-1000 to 1000)", "N", kind="number"),
    Option(
        "ulimit",
        "set a resource limit of processes",
        "NAME=SOFT[:HARD]",
        kind="list",
        details="For example nofile=1024:4096; -1 means unlimited. For NAME, see setrlimit(2).",
    ),
)


def limits_of(arguments: Arguments) -> Spec:
    """Return the members of a create request that ``LIMIT_OPTIONS`` set.

    Raises UsageError for an invalid value.
    """
    spec: Spec = {}
    for option in ("memory-swap", "memory-reservation"):
        if text := arguments.text(option):
            spec[_member(option)] = byte_count(text, option)
    for option in ("cpu-quota", "cpu-period"):
        spec[_member(option)] = max(arguments.number(option), 0)
    for option in ("cpuset-cpus", "cpuset-mems"):
        spec[_member(option)] = arguments.text(option)
    parse = container_values.ulimit
    spec["ulimits"] = [parse(text, "--ulimit") for text in arguments.list("ulimit")]
    # Docker treats one of these options that is 0, an empty string or a negative time as not set.
    spec = {member: value for member, value in spec.items() if value}
    if memory := arguments.text("memory"):
        spec["memory"] = byte_count(memory, "memory")
    if cpus := arguments.text("cpus"):
        spec["cpus"] = milli_cpus(cpus, "--cpus") / 1000
    for option in ("cpu-shares", "pids-limit", "oom-score-adj"):
        if option in arguments.numbers:
            spec[_member(option)] = arguments.number(option)
    return spec


def _member(option: str) -> str:
    return option.replace("-", "_")
