"""A small document of a bench, as a run of two rounds would write it."""

from __future__ import annotations

from bench.document import COMMANDS, Costs, Document, NodePods, ShimSize, Waiting


def costs(*walls: float) -> dict[str, Costs]:
    """Every command takes the same times."""
    count = len(walls)
    return {
        command: {
            "wall": list(walls),
            "cpu": [wall / 2 for wall in walls],
            "faults": [100] * count,
            "memory": [2048] * count,
        }
        for command in COMMANDS
    }


def waiting(size: int) -> Waiting:
    return {"pss": [size], "rss": [size * 2], "cpu_created": [1.0], "cpu_ended": [2.0]}


def size(memory: int) -> ShimSize:
    return {"memory": memory, "descriptors": 25, "threads": 12, "children": 2}


def node_pods(time: float) -> NodePods:
    return {
        "up": [time],
        "down": [time / 2],
        "cpu_up": [time / 4],
        "cpu_down": [time / 8],
        "memory": {"containerd-shim": 7000.0, "sleep": 500.0},
        "state": 16.0,
    }


OWN, PEER = "ociruntime 1.0", "runc 1.1.5"


def document() -> Document:
    """Ours takes half the time that the peer takes."""
    life = {OWN: costs(1.0, 3.0), PEER: costs(3.0, 5.0)}
    return {
        "machine": "Linux 6.18, 2 cores, cgroup v1",
        "rounds": 2,
        "runtimes": [
            {"name": OWN, "path": "/x/ociruntime", "version": OWN, "own": True},
            {"name": PEER, "path": "/x/runc", "version": PEER, "own": False},
        ],
        "life": {"plain": life, "docker": life},
        "floor": {"busybox true": life[OWN]["state"]},
        "waiting": {OWN: waiting(100), PEER: waiting(9000)},
        "scaling": {
            "bind mounts": {
                OWN: {"10": [12.0, 11.0], "100": [20.0], "1000": [110.0], "2000": [210.0]},
                PEER: {"10": [10.0], "100": [20.0], "1000": [110.0]},
            }
        },
        "seccomp": {
            OWN: {"first": [20.0, 22.0], "again": [11.0, 12.0], "none": [10.0, 11.0]},
            PEER: {"first": [30.0, 30.0], "again": [30.0, 30.0], "none": [20.0, 20.0]},
        },
        "crowd": {
            OWN: {"count": 10, "create": [100.0], "delete": [20.0], "failures": 0},
            PEER: {"count": 10, "create": [300.0], "delete": [], "failures": 10},
        },
        "pods": {
            "first_line": {"ocipod": [40.0, 42.0]},
            "end": {"ocipod": [50.0, 52.0]},
            "idle_first": {"ocipod": 5000.0},
            "idle_later": {"ocipod": 40.0},
            "idle_parts": {"ocipod": "ocipod-init 40"},
        },
        "managers": {
            "count": 500,
            "times": {"ocictl": {"ps": [20.0, 22.0]}, "docker": {"ps": [40.0, 44.0]}},
            "memory": {"ocictl": 40 * 1024.0, "docker": 0.0},
        },
        "probes": {
            "engine": "containerd 2.1",
            "rate": 20,
            "minutes": 2,
            "times": {OWN: [[20.0, 21.0, 22.0], [20.0, 21.0, 90.0]], PEER: [[40.0], [44.0]]},
            "cpu": {OWN: [10.0, 12.0], PEER: [30.0, 30.0]},
            "shim": {OWN: [size(100), size(120)], PEER: [size(200), size(200)]},
            "left": {OWN: [], PEER: ["process 7 (sleep)"]},
            "pods": {OWN: node_pods(100.0), PEER: node_pods(200.0)},
        },
        "profile": {
            "phases": {"load the command": 3.0, "read config.json": 1.0},
            "operations": {"mount": 1.0},
            "create": {"runtime: page faults": 3.0, "runtime: read()": 0.01},
            "exec": {},
        },
    }
