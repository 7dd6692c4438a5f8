"""``buildah run`` on podman's storage."""

from __future__ import annotations

from pathlib import Path

from tests.engines.command import execute
from tests.engines.podman import Podman
from tests.support.runtime import Result


class Buildah:
    """``buildah(...)`` runs one command; the method ``run`` adds the options for the runtime."""

    def __init__(self, program: str, runtime: Path, podman: Podman) -> None:
        self.program = program
        self.podman = podman
        self.runtime = runtime

    def __call__(self, *args: str) -> Result:
        verb, *rest = args
        if verb == "run":
            rest = [f"--runtime={self.runtime}", "--isolation=oci", *rest]
        if verb == "from":
            rest = [f"--cgroup-parent={self.podman.cgroup}/build", "--network=none", *rest]
        return execute([self.program, verb, *rest], self.podman.env, self.podman.home)
