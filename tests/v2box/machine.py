"""The test VM: build it, install the project in it, boot it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support import project
from tests.support.runtime import Result, execute

BOX = Path(__file__).with_name("box")
UNAVAILABLE = 69  # this machine cannot run the test VM
SOURCE = "/usr/src/ociruntime"  # in the VM: the project's files
REPORTS = "/var/lib/reports"  # in the VM: files to copy back
INSTALLED = ("ociruntime", "csrc", "schemas", "tools")

# Root tests enter a mount namespace with an empty /run.  The VM is built and booted from
# the one in which the session began: there /etc/resolv.conf leads somewhere.
_BEGINNING = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def command(*arguments: str) -> list[str]:
    """Return the command that runs the VM with these arguments, given the descriptor
    ``pass_fds()``."""
    return ["nsenter", f"--mount=/proc/self/fd/{_BEGINNING}", str(BOX), *arguments]


def pass_fds() -> tuple[int, ...]:
    return (_BEGINNING,)


def box(*arguments: str, timeout: float = 900) -> Result:
    """Run the script to its end."""
    return execute(command(*arguments), pass_fds=pass_fds(), timeout=timeout)


class NoBox(Exception):
    """This machine cannot run a test VM."""


def built() -> None:
    """Build the tree if it is missing or outdated; raises NoBox."""
    if os.geteuid() != 0:
        raise NoBox("needs root")
    if shutil.which("nsenter") is None or shutil.which("flock") is None:
        raise NoBox("util-linux is not installed")
    result = box("build", timeout=1800)
    if result.status == UNAVAILABLE:
        raise NoBox(f"no box: {result.err.strip().splitlines()[-1].removeprefix('box: ')}")
    assert result.status == 0, result


def copy_sources(place: Path) -> str:
    """Copy the project's files; return the digest of what an installation depends on."""
    digest = hashlib.sha256()
    for path in project.files():
        name = path.relative_to(project.ROOT)
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        if len(name.parts) == 1 or name.parts[0] in INSTALLED:
            digest.update(f"{name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class Machine:
    """A test VM with the project installed; ``boot`` runs a command in it."""

    def __init__(self, source: Path, reports: Path, place: str) -> None:
        self.reports = reports  # on this machine
        self.place = place  # of the virtual environment, in the VM
        self._binds = ["--bind", f"{source}:{SOURCE}", "--bind", f"{reports}:{REPORTS}"]

    def chroot(self, *words: str) -> Result:
        """Run a command in the tree, on this machine's kernel."""
        return box("chroot", *self._binds, "--", *words)

    def boot(self, *words: str, seconds: int, options: tuple[str, ...] = ()) -> Result:
        """Boot, run the command, power off."""
        limit = ["--seconds", str(seconds)]
        return box("run", *self._binds, *limit, *options, "--", *words, timeout=seconds + 600)


def installed(place: Path) -> Machine:
    """Install the current project in the VM; ``place`` is a directory for this session."""
    source, reports = place / "source", place / "reports"
    reports.mkdir()
    digest = copy_sources(source)
    machine = Machine(source, reports, f"/opt/ociruntime/{digest}")
    machine.chroot(f"{SOURCE}/tests/v2box/install.sh", SOURCE, machine.place).ok()
    return machine


def debris(words: str) -> list[str]:
    """Return the processes of this machine with these words in their command line."""
    with tempfile.TemporaryFile("w+") as file:
        subprocess.run(["ps", "-ww", "-eo", "pid,args"], stdout=file, check=True)
        file.seek(0)
        return [line for line in file if words in line]
