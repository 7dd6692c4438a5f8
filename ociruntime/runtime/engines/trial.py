"""Run a test container through an engine, without an image: its only file is our executor.

Without arguments the executor exits at once with the status ``RAN``; if an engine fails, it exits
with a different status.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile

from ociruntime.base.files import read_file
from ociruntime.runtime.engines.calls import Answer, ask
from ociruntime.runtime.engines.configuration import NAME
from ociruntime.runtime.executor.spawn import PROGRAM

RAN = 1  # exit status of the executor without arguments
_INSIDE = "program"
_OPTIONS = ("run", "--rm", "--network=none")


def podman_trial(podman: str) -> str:
    """Run a test container through podman; return why it failed, or ""."""
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
    """Run a test container through Docker, from a temporary image; return why it failed, or ""."""
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
    """Return a tar archive with the executor, for ``docker import``.  Raises OSError."""
    data = read_file(PROGRAM)
    member = tarfile.TarInfo(_INSIDE)
    member.size = len(data)
    member.mode = 0o755
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()
