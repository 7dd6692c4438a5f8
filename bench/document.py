"""The JSON document with a run's results: measurements write it, tables read it.

Times are milliseconds, memory is KiB. Lists have one entry for each round, in order.
"""

from __future__ import annotations

from typing import TypedDict

# The commands of a container's lifecycle, in this order; ``run`` is a whole lifecycle itself.
COMMANDS = (
    *("create", "start", "state", "exec", "ps", "pause", "resume", "kill", "delete"),
    "run",
)
# The name of their sum in tables, and the commands that an engine calls for each container.
WHOLE = "whole"
WHOLE_COMMANDS = ("create", "start", "state", "kill", "delete")


class RuntimeFacts(TypedDict):
    """A measured runtime; ``own``: it is ociruntime."""

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
    """The init of a created container: its memory, and its CPU time after create and in total."""

    pss: list[int]
    rss: list[int]
    cpu_created: list[float]
    cpu_ended: list[float]


class Crowd(TypedDict):
    """Containers created and deleted concurrently; ``failures`` of all rounds."""

    count: int
    create: list[float]
    delete: list[float]
    failures: int


class Pods(TypedDict):
    """Times (``first_line``, ``end``) and memory of idle pods (``idle_...``) by engine."""

    first_line: dict[str, list[float]]
    end: dict[str, list[float]]
    idle_first: dict[str, float]
    idle_later: dict[str, float]
    idle_parts: dict[str, str]


class Managers(TypedDict):
    """Times of the clients' commands by manager and command, memory of the daemons by manager.

    ``count`` is the number of containers that each manager has at the end.
    """

    count: int
    times: dict[str, dict[str, list[float]]]
    memory: dict[str, float]


class ShimSize(TypedDict):
    """The size of a pod's shim: PSS, and numbers; ``children`` with theirs."""

    memory: int
    descriptors: int
    threads: int
    children: int


class NodePods(TypedDict):
    """Pods with one container: times and CPU times of start and removal, memory while they run.

    ``memory`` is PSS by program, ``state`` what the files in the state root take, per pod.
    """

    up: list[float]
    down: list[float]
    cpu_up: list[float]
    cpu_down: list[float]
    memory: dict[str, float]
    state: float


class Probes(TypedDict):
    """Exec probes, by runtime and minute: times, CPU time of one, sizes of the shim.

    The first size was measured before the first minute. ``left`` is what leaks.difference() tells.
    """

    engine: str
    rate: int  # probes a second
    minutes: int
    times: dict[str, list[list[float]]]
    cpu: dict[str, list[float]]
    shim: dict[str, list[ShimSize]]
    left: dict[str, list[str]]
    pods: dict[str, NodePods]


class Profile(TypedDict):
    """Milliseconds that `create` and `exec` spend, by activity."""

    phases: dict[str, float]  # of the runtime in `create`, wall time
    operations: dict[str, float]  # of the executor in `create`, wall time
    create: dict[str, float]  # CPU time
    exec: dict[str, float]


class Document(TypedDict, total=False):
    """The results of one run on one machine; subjects that were not measured are missing."""

    machine: str
    note: str  # further remarks on the conditions
    rounds: int
    runtimes: list[RuntimeFacts]
    life: dict[str, dict[str, dict[str, Costs]]]  # bundle, runtime, command
    floor: dict[str, Costs]  # commands that do little besides starting
    waiting: dict[str, Waiting]
    scaling: dict[str, dict[str, dict[str, list[float]]]]  # kind, runtime, count
    seccomp: dict[str, dict[str, list[float]]]  # runtime, kind
    crowd: dict[str, Crowd]
    pods: Pods
    managers: Managers
    probes: Probes
    profile: Profile
    v2: Document
