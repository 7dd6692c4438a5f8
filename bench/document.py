"""The JSON document with a run's results: measurements write it, tables read it.

Times are milliseconds, memory is KiB. Lists have one entry for each round, in order.
"""

from __future__ import annotations

from typing import TypedDict

# The commands of a container's lifecycle, in this order; ``run`` is a whole lifecycle itself.
COMMANDS = ("create", "start", "state", "exec", "kill", "delete", "run")
# The commands that an engine calls for each container.
WHOLE = "whole"
WHOLE_COMMANDS = ("create", "start", "state", "kill", "delete")


class RuntimeFacts(TypedDict):
    """A column: one program, with or without the interpreter's snapshot."""

    name: str
    path: str
    version: str
    own: bool


class Costs(TypedDict):
    """The cost of one command, round by round."""

    wall: list[float]
    cpu: list[float]
    faults: list[int]
    memory: list[int]


class Waiting(TypedDict):
    """A created container: memory of its first process, and the CPU time that this has had."""

    pss: list[int]
    rss: list[int]
    cpu_created: list[float]
    cpu_ended: list[float]


class Crowd(TypedDict):
    """Containers made all at once."""

    count: int
    create: list[float]
    delete: list[float]
    failures: int


class Pods(TypedDict):
    """Engines of pods and containers, by name."""

    first_line: dict[str, list[float]]
    end: dict[str, list[float]]
    idle_first: dict[str, float]
    idle_later: dict[str, float]
    idle_parts: dict[str, str]


class Profile(TypedDict):
    """Milliseconds of `create` and `exec` by what they were spent on."""

    phases: dict[str, float]  # of the runtime in `create`, wall time
    operations: dict[str, float]  # of the executor in `create`, wall time
    create: dict[str, float]  # CPU time
    exec: dict[str, float]


class Document(TypedDict, total=False):
    """One run on one machine; a subject that was left out is missing."""

    machine: str
    note: str  # further remarks on the conditions
    rounds: int
    runtimes: list[RuntimeFacts]
    life: dict[str, dict[str, dict[str, Costs]]]  # bundle, runtime, command
    floor: dict[str, Costs]  # what commands cost that do little but start
    waiting: dict[str, Waiting]
    scaling: dict[str, dict[str, dict[str, list[float]]]]  # kind, runtime, count
    seccomp: dict[str, dict[str, list[float]]]  # runtime, kind
    crowd: dict[str, Crowd]
    pods: Pods
    profile: Profile
    v2: Document
