"""Commands of engines: which are installed, and what they answer."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from ociruntime.base.host_programs import find_program

TIMEOUT = 60.0  # seconds that an engine may take for an answer
NOT_STARTED = 127
# They would direct a client to another host.
REMOTE = ("CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_CONTEXT")


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    status: int
    out: str
    error: str

    @property
    def last_line(self) -> str:
        """The last line of its errors: what a person is to read."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


def find_first(names: tuple[str, ...]) -> str:
    """Return the path of the first of these programs that is installed, "" if none is."""
    return next((path for name in names if (path := find_program(name))), "")


def ask(program: str, *arguments: str, stdin: bytes = b"") -> Answer:
    """Run a command of an engine to its end."""
    environment = {name: value for name, value in os.environ.items() if name not in REMOTE}
    try:
        done = subprocess.run(
            [program, *arguments],
            input=stdin,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(NOT_STARTED, "", f"no answer within {TIMEOUT:.0f} seconds")
    except OSError as error:
        return Answer(NOT_STARTED, "", error.strerror or str(error))
    out, errors = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return Answer(done.returncode, out, errors)


def docker_host() -> str:
    """Return the address of this host's dockerd; never that of another host."""
    address = os.environ.get("DOCKER_HOST", "")
    return address if address.startswith("unix://") else "unix:///var/run/docker.sock"
