"""Find the OCI runtime, execute it with a runc-compatible command line, and read its errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError
from ociruntime.base.files import read_file
from ociruntime.base.host_programs import find_program, own_launcher
from ociruntime.base.linux import S_IFCHR, S_IFMT
from ociruntime.base.process import working_directory

STATE_ROOT = "/run/ocipod"  # contains the --root directory of each runtime

NOT_FOUND = 127
NOT_EXECUTABLE = 126
OWN_FAILURE = 254
NULL_DEVICE = os.makedev(1, 3)

# Parts of error messages, in lower case, by which runtimes report that execve(2) failed.
_EXECUTION = ("exec", "execute", "executable", "command", "not a regular file")
_NOT_EXECUTABLE = (
    *("permission denied", "operation not permitted", "exec format error"),
    *("is a directory", "not a regular file", "not executable"),
)
_NOT_FOUND = ("no such file", "not found", "not a directory", "cannot be found")


def find_runtime(name: str) -> str:
    """Return the absolute path of the OCI runtime ``name``.

    ``name`` is a path or the name of a program.  A path need not exist.  A name is looked up beside
    ``ocipod`` and in the trusted directories.  Raises PodError if the name is not found.
    """
    if "/" in name:
        return name if name.startswith("/") else f"{working_directory()}/{name}"
    if path := own_launcher(name) or find_program(name):
        return path
    raise PodError(f'the OCI runtime "{name}" is not installed', "choose another with --runtime")


class RuntimeCalls:
    """The command lines with which a pod calls its OCI runtime.

    ``program`` is the path of the runtime, ``root`` the value of the runtime's option ``--root``.
    All pods whose runtimes have the same file name use the same ``root``, because runtimes keep
    files there that containers share.
    """

    __slots__ = ("debug", "program", "root", "uuid")

    def __init__(self, program: str, uuid: str, debug: bool = False) -> None:
        self.program = program
        self.uuid = uuid
        self.debug = debug
        self.root = f"{STATE_ROOT}/{program.rpartition('/')[2]}"

    def container(self, app: str) -> str:
        """Return the container id of the app, ``UUID-APP``."""
        return f"{self.uuid}-{app}"

    def command(self, log: str, arguments: Sequence[str]) -> list[str]:
        """Return the runtime's argv: its global options, followed by ``arguments``.

        ``log`` is the path of the runtime's log file, or "" for none.
        """
        options = ["--root", self.root]
        if log:
            options += ["--log", log, "--log-format", "json"]
        if self.debug:
            options.append("--debug")
        return [self.program, *options, *arguments]

    def become(self, log: str, arguments: Sequence[str], streams: Sequence[int]) -> NoReturn:
        """Replace this process with the OCI runtime; raise HostError if execve(2) fails.

        ``log`` and ``arguments`` are passed to ``command``.  ``streams`` are the descriptors of the
        runtime's stdin, stdout and stderr, -1 for a null device.  The null device is a private one,
        because crun before 1.9 changes the owner of its standard streams to the container's user.
        """
        null = -1
        for number, fd in enumerate(streams):
            is_null = fd < 0 or _is_null(fd)
            if is_null and null < 0:
                null = _open_null()
            os.dup2(null if is_null else fd, number)
        try:
            os.execve(self.program, self.command(log, arguments), os.environ)
        except OSError as error:
            raise HostError(f'execute "{self.program}"', error) from None


def _is_null(fd: int) -> bool:
    status = os.fstat(fd)
    return status.st_mode & S_IFMT == S_IFCHR and status.st_rdev == NULL_DEVICE


def _open_null() -> int:
    """Return a descriptor of a private null device, or of /dev/null before Linux 5.2.

    Raises HostError if the device cannot be opened.
    """
    from ociruntime._system_calls import lib

    fd: int = lib.oci_own_null()
    if fd >= 0:
        return fd
    try:
        return os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise HostError('open "/dev/null"', error) from None


def failure(log: str, fallback: str, program: str = "") -> str:
    """Return the last error message in ``log``, a runtime's log file of JSON lines.

    Returns ``fallback`` if the log contains no error.  ``program`` is the name of the app's
    program.  If the message says that the program could not be executed, but does not contain this
    name, the result begins with ``exec "PROGRAM": ``.
    """
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
            message = str(entry.get("msg"))
            if program and program not in message and failure_code(message) != OWN_FAILURE:
                return f'exec "{program}": {message}'
            return message
    return fallback


def failure_code(message: str) -> int:
    """Return the exit code of an app whose start failed with the runtime's error ``message``.

    It is 126 if the program is not executable, 127 if it was not found, 254 for any other failure.
    """
    text = message.lower()
    if any(word in text for word in _EXECUTION):
        if any(phrase in text for phrase in _NOT_EXECUTABLE):
            return NOT_EXECUTABLE
        if any(phrase in text for phrase in _NOT_FOUND):
            return NOT_FOUND
    return OWN_FAILURE
