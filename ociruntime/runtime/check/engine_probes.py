"""Probes of the engines on this host: which are installed, and which use ociruntime.

The probes only read files: an engine's own command might create the engine's storage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ociruntime.runtime.check.finding import LIMITED, OK, Answer, Host, Probe
from ociruntime.runtime.engines.engine_configs import find_use
from ociruntime.runtime.engines.setup import (
    CONTAINERD_DROP_IN,
    CONTAINERD_FILE,
    CRIO_FILE,
    DOCKER_FILE,
    PODMAN_DIRECTORY,
    podman_file,
)

# Engine -> (its program, its configuration files and directories).  A directory ends in "/"; later
# files override earlier ones.
_CONFIGURATION: dict[str, tuple[str, Callable[[], tuple[str, ...]]]] = {
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


def _find_runtime(engine: str, host: Host) -> Answer:
    """Report whether an engine is installed and configured to use ociruntime."""
    name, paths = _CONFIGURATION[engine]
    program = host.program(name)
    if not program:
        return Answer(OK, "not installed")
    files = [
        path
        for source in paths()
        for path in (host.entries(source[:-1]) if source.endswith("/") else [source])
    ]
    use = find_use(engine, *map(host.read, files))
    if use is None:
        return Answer(OK, f"{program} does not use ociruntime (ociruntime setup {engine})")
    if not host.program(use.program):
        return Answer(LIMITED, f"{program} is configured to run {use.program}: no such file")
    return Answer(OK, f"{program} has {use.program} as {use.how}")


def _probe(engine: str, title: str) -> Probe:
    meaning = f"{title} cannot run containers with ociruntime"
    return Probe(title, partial(_find_runtime, engine), meaning, f"ociruntime setup {engine}")


ENGINES: tuple[Probe, ...] = (
    _probe("podman", "podman"),
    _probe("docker", "Docker"),
    _probe("containerd", "containerd"),
    _probe("crio", "CRI-O"),
)
