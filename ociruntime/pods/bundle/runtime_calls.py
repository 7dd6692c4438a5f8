"""Call the OCI runtime by its command line, the one that runc has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import read_file
from ociruntime.base.linux import S_IFCHR, S_IFMT
from ociruntime.base.programs import find_program, own_launcher

STATE_ROOT = "/run/ocipod"  # contains the --root directory of each runtime

NOT_FOUND = 127
NOT_EXECUTABLE = 126
OWN_FAILURE = 254
NULL_DEVICE = os.makedev(1, 3)

# Words, in lower case, of runtimes and the kernel for a program that cannot be executed.
_EXECUTION = ("exec", "execute", "executable", "command")
_NOT_EXECUTABLE = ("permission denied", "exec format error", "is a directory", "not executable")
_NOT_FOUND = ("no such file", "not found", "not a directory", "cannot be found")


def find_runtime(name: str) -> str:
    """Find a runtime: absolute path, beside this program, or installed.  Raises PodError."""
    if "/" in name:
        return name if name.startswith("/") else f"{os.getcwd()}/{name}"
    if path := own_launcher(name) or find_program(name):
        return path
    raise PodError(f'the runtime "{name}" is not installed', "choose another with --runtime")


class RuntimeCalls:
    """The runtime of one pod.

    ``root``, its ``--root``, is shared by all pods with a runtime of that name, so that they can
    share what the runtime caches there.
    """

    __slots__ = ("debug", "program", "root", "uuid")

    def __init__(self, program: str, uuid: str, debug: bool = False) -> None:
        self.program = program
        self.uuid = uuid
        self.debug = debug
        self.root = f"{STATE_ROOT}/{program.rpartition('/')[2]}"

    def container(self, app: str) -> str:
        """Return the container's id."""
        return f"{self.uuid}-{app}"

    def command(self, log: str, words: Sequence[str]) -> list[str]:
        """Return the command line; the runtime logs errors to the file ``log`` (empty: none)."""
        options = ["--root", self.root]
        if log:
            options += ["--log", log, "--log-format", "json"]
        if self.debug:
            options.append("--debug")
        return [self.program, *options, *words]

    def become(self, log: str, words: Sequence[str], streams: Sequence[int]) -> NoReturn:
        """Execute the runtime in this process with these streams; -1 is the null device.

        The host's null device is replaced by a private one, because some runtimes chown their
        standard streams to the container's user (crun before 1.9).  Raises HostError.
        """
        null = -1
        for number, fd in enumerate(streams):
            is_null = fd < 0 or _is_null(fd)
            if is_null and null < 0:
                null = _open_null()
            os.dup2(null if is_null else fd, number)
        try:
            os.execve(self.program, self.command(log, words), os.environ)
        except OSError as error:
            raise HostError(f"execute {self.program}", error) from None


def _is_null(fd: int) -> bool:
    seen = os.fstat(fd)
    return seen.st_mode & S_IFMT == S_IFCHR and seen.st_rdev == NULL_DEVICE


def _open_null() -> int:
    """Open a private null device; before Linux 5.2, the host's.

    Raises HostError.
    """
    from ociruntime._shim import lib

    fd: int = lib.oci_own_null()
    if fd >= 0:
        return fd
    try:
        return os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise HostError("open /dev/null", error) from None


def failure(log: str, fallback: str) -> str:
    """Return the last error in a runtime's log (JSON lines), or ``fallback``."""
    try:
        lines = read_file(log).splitlines()
    except OSError:
        lines = []
    for line in reversed(lines):
        try:
            entry = json_files.parse(line, "a line")
        except PodError:
            continue
        if entry.get("level") in ("error", "fatal"):
            return str(entry.get("msg"))
    return fallback


def failure_code(message: str) -> int:
    """Return the exit code for an app that could not be started: 126, 127 as in a shell."""
    text = message.lower()
    if any(word in text for word in _EXECUTION):
        if any(words in text for words in _NOT_EXECUTABLE):
            return NOT_EXECUTABLE
        if any(words in text for words in _NOT_FOUND):
            return NOT_FOUND
    return OWN_FAILURE
