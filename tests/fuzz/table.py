"""The fuzz targets by name: modules of targets/, and C files of native/."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.fuzz.target import Target

HERE = Path(__file__).resolve().parent
PYTHON = {
    "aci": "manifests and members of App Container Images",
    "api": "bodies and queries of the manager's API",
    "archive": "docker archives and layouts",
    "argv": "command lines of all four programs",
    "cgroup": "control files, /proc/PID/cgroup, cgroup mounts",
    "challenge": "headers of a registry's answers",
    "config": "config.json, from the bytes to the plan",
    "control": "requests and frames on a monitor's control socket",
    "layer": "tar archives and compressed layers, unpacked",
    "message": "messages of the executor",
    "mountinfo": "/proc/PID/mountinfo",
    "openpgp": "OpenPGP keys and signatures",
    "property": "systemd properties in annotations (GVariant)",
    "state": "records of containers, apps and the manager",
    "template": "templates of --format",
}
NATIVE = {
    "arguments": "command lines of the fast path",
    "frame": "frames between a virtual machine and the host",
    "go": "answers to the executor",
    "plan": "plans, read to the last field",
    "record": "the fast path's record",
    "walk": "paths through forests of symbolic links",
}
NAMES = sorted([*PYTHON, *NATIVE])


def load(name: str) -> Target:
    """Return a Python target; imports what it tests."""
    target: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    return target
