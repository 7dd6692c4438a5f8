"""Probes of the engines on this host: which are installed, and whether they use this runtime.

They only read files: a command of an engine might create the engine's storage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ociruntime.runtime.doctor.finding import LIMITED, OK, Answer, Host, Probe
from ociruntime.runtime.engines.configuration import find_use
from ociruntime.runtime.engines.setup import (
    CONTAINERD_DROP_IN,
    CONTAINERD_FILE,
    CRIO_FILE,
    DOCKER_FILE,
    PODMAN_DIRECTORY,
    podman_file,
)

# Engine -> its program and what it reads, the last word at the end: files, and the directories of
# files.
_READ: dict[str, tuple[str, Callable[[], tuple[str, ...]]]] = {
    "podman": (
        "podman",
        lambda: (
            "/usr/share/containers/containers.conf",
            "/etc/containers/containers.conf",
            f"{PODMAN_DIRECTORY}/",
            f"{podman_file().rpartition('/')[0]}/",
        ),
    ),
    "docker": ("dockerd", lambda: (DOCKER_FILE,)),
    "containerd": (
        "containerd",
        lambda: (CONTAINERD_FILE, f"{CONTAINERD_DROP_IN.rpartition('/')[0]}/"),
    ),
    "crio": ("crio", lambda: ("/etc/crio/crio.conf", f"{CRIO_FILE.rpartition('/')[0]}/")),
}


def _look(engine: str, host: Host) -> Answer:
    name, places = _READ[engine]
    program = host.program(name)
    if not program:
        return Answer(OK, "not installed")
    files = [
        path
        for place in places()
        for path in (host.entries(place[:-1]) if place.endswith("/") else [place])
    ]
    use = find_use(engine, *map(host.read, files))
    if use is None:
        return Answer(OK, f"{program} uses other runtimes (ociruntime setup {engine})")
    if not host.program(use.program):
        return Answer(LIMITED, f"{program} is to run {use.program}, which is not there")
    return Answer(OK, f"{program} has {use.program} as {use.how}")


def _probe(engine: str, title: str) -> Probe:
    meaning = f"containers of {title} on this runtime fail"
    return Probe(title, partial(_look, engine), meaning, f"ociruntime setup {engine}")


ENGINES: tuple[Probe, ...] = (
    _probe("podman", "podman"),
    _probe("docker", "Docker"),
    _probe("containerd", "containerd"),
    _probe("crio", "CRI-O"),
)
