"""Find and run the commands of engines (podman, docker, containerd, crio)."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from ociruntime.base.host_programs import find_program

TIMEOUT = 60.0  # seconds for a command to exit
NOT_STARTED = 127
# Variables that would direct a client to another host.
REMOTE = ("CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_CONTEXT")


@dataclass(frozen=True)
class Answer:
    """The result of a command: its exit status, standard output and standard error."""

    status: int
    out: str
    error: str

    @property
    def last_line(self) -> str:
        """The last line of standard error, or the exit status if the command printed nothing."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


def find_first(names: tuple[str, ...]) -> str:
    """Return the path of the first of the programs ``names`` that is installed, or ""."""
    return next((path for name in names if (path := find_program(name))), "")


def ask(program: str, *arguments: str, stdin: bytes = b"") -> Answer:
    """Run an engine's command and wait for it; failures are reported in the Answer."""
    environment = {name: value for name, value in os.environ.items() if name not in REMOTE}
    try:
        result = subprocess.run(
            [program, *arguments],
            input=stdin,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(NOT_STARTED, "", f"{program}: no answer within {TIMEOUT:.0f} seconds")
    except OSError as error:
        return Answer(NOT_STARTED, "", error.strerror or str(error))
    out, errors = (part.decode("utf-8", "replace") for part in (result.stdout, result.stderr))
    return Answer(result.returncode, out, errors)


def docker_host() -> str:
    """Return dockerd's address on this host: DOCKER_HOST if it is a Unix socket, or the default."""
    address = os.environ.get("DOCKER_HOST", "")
    return address if address.startswith("unix://") else "unix:///var/run/docker.sock"
