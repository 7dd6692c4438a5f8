"""Run the commands of engines (podman, docker ...), and run a test container with an engine.

The test container needs no image: its only file is our executor.  Without arguments, the executor
exits at once with the status ``RAN``.  An engine that fails exits with another status.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass

from ociruntime.base.files import read_file
from ociruntime.base.host_programs import find_program
from ociruntime.runtime.engines.engine_configs import NAME
from ociruntime.runtime.executor.spawn import PROGRAM

RAN = 1  # exit status of the executor without arguments
_INSIDE = "program"
_OPTIONS = ("run", "--rm", "--network=none")
TIMEOUT = 60.0  # seconds for a command to exit
NOT_STARTED = 127
# Variables that would direct a client to another host.
REMOTE = ("CONTAINER_HOST", "CONTAINER_CONNECTION", "DOCKER_CONTEXT")


@dataclass(frozen=True)
class Answer:
    """The result of a command: exit status, and the text of standard output and standard error."""

    status: int
    out: str
    error: str

    @property
    def last_line(self) -> str:
        """The last line of standard error, or the exit status if the command printed nothing."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


def find_first(names: tuple[str, ...]) -> str:
    """Return the path of the first program in ``names`` that is installed; "" if none is."""
    return next((path for name in names if (path := find_program(name))), "")


def ask(program: str, *arguments: str, stdin: bytes = b"") -> Answer:
    """Run an engine's command and wait for it; return its output.

    If the command cannot be run or times out, the Answer contains the error.
    """
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
    """Return dockerd's address: DOCKER_HOST if it is a local Unix socket, else the default."""
    address = os.environ.get("DOCKER_HOST", "")
    return address if address.startswith("unix://") else "unix:///var/run/docker.sock"


def podman_trial(podman: str) -> str:
    """Run a test container with podman; return the reason for a failure, "" for success."""
    directory = tempfile.mkdtemp(prefix="ociruntime-setup-")
    try:
        os.chmod(directory, 0o755)
        shutil.copyfile(PROGRAM, f"{directory}/{_INSIDE}")
        os.chmod(f"{directory}/{_INSIDE}", 0o755)
        return _failure(
            ask(podman, "--runtime", NAME, *_OPTIONS, "--rootfs", directory, f"/{_INSIDE}")
        )
    except OSError as error:
        return f'create a root filesystem in "{directory}": {error.strerror}'
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def docker_trial(docker: str, host: str) -> str:
    """Run a test container with Docker from a temporary image.

    Returns the reason for a failure, "" for success.
    """
    image = f"ociruntime-setup:{os.urandom(8).hex()}"
    try:
        archive = _archive()
    except OSError as error:
        return f'read "{PROGRAM}": {error.strerror}'
    imported = ask(docker, "--host", host, "import", "-", image, stdin=archive)
    if imported.status != 0:
        return imported.last_line
    try:
        options = (*_OPTIONS, f"--runtime={NAME}")
        return _failure(ask(docker, "--host", host, *options, image, f"/{_INSIDE}"))
    finally:
        ask(docker, "--host", host, "image", "rm", "--force", image)


def _failure(answer: Answer) -> str:
    return "" if answer.status == RAN else answer.last_line


def _archive() -> bytes:
    """Return a tar archive with the executor, for ``docker import``.

    Raises OSError if the executor cannot be read.
    """
    data = read_file(PROGRAM)
    member = tarfile.TarInfo(_INSIDE)
    member.size = len(data)
    member.mode = 0o755
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()
