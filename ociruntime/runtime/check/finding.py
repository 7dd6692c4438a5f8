"""The types of `ociruntime check`: Probe, Finding, Fault, and Host for access to the host."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ociruntime.base.files import may_access

Json = Any  # a JSON document or a value inside it

OK = "ok"
LIMITED = "limited"  # containers run, but some settings are refused
MISSING = "missing"


class Answer(NamedTuple):
    """The result of a probe's function ``look``: a state, and a text about what was found.

    If ``meaning`` or ``remedy`` is set, it overrides the Probe's field of the same name.
    """

    state: str
    found: str
    meaning: str = ""
    remedy: str = ""


class Probe(NamedTuple):
    """A probe of the host: the function ``look``, the consequences of a failure, and the remedy.

    If an ``essential`` probe fails, no container can run.
    """

    name: str
    look: Callable[[Host], Answer]
    meaning: str
    remedy: str
    essential: bool = False


class Finding(NamedTuple):
    """A probe's name and result; ``meaning`` and ``remedy`` are "" if the probe succeeded."""

    subject: str
    name: str
    state: str
    found: str
    meaning: str
    remedy: str
    essential: bool


class Fault(NamedTuple):
    """A fault of a bundle: ``where`` is a JSON path or ""; a ``warning`` does not stop `create`."""

    where: str
    message: str
    hint: str
    warning: bool = False


def run_probes(host: Host, tables: Iterable[tuple[str, tuple[Probe, ...]]]) -> list[Finding]:
    """Run all probes in ``tables``, pairs of (subject, probes); return the findings in order."""
    findings = []
    for subject, probes in tables:
        for probe in probes:
            answer = probe.look(host)
            meaning = remedy = ""
            if answer.state != OK:
                meaning = answer.meaning or probe.meaning
                remedy = answer.remedy or probe.remedy
            findings.append(
                Finding(
                    subject,
                    probe.name,
                    answer.state,
                    answer.found,
                    meaning,
                    remedy,
                    probe.essential,
                )
            )
    return findings


def can_run(findings: Iterable[Finding]) -> bool:
    """Return whether containers can run, that is, no essential probe has failed."""
    return not any(each.essential and each.state == MISSING for each in findings)


class Host:
    """The probes' access to the host; tests replace this class.  No method raises OSError."""

    def __init__(self, state_root: str, rootless: bool) -> None:
        self.state_root = state_root
        self.rootless = rootless  # not root of the initial user namespace
        self.uid = os.geteuid()

    def read(self, path: str) -> str:
        """Return the content of a file, "" if it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Return whether the path exists; symbolic links are followed."""
        return os.path.exists(path)

    def entries(self, directory: str) -> list[str]:
        """Return the paths of the files in a directory, sorted; [] if it cannot be read."""
        try:
            return [f"{directory}/{name}" for name in sorted(os.listdir(directory))]
        except OSError:
            return []

    def writable(self, path: str) -> bool:
        """Return whether this user may write to the file or directory."""
        return may_access(path, os.W_OK)

    def program(self, name: str) -> str:
        """Return the path of a program, "" if it is not installed."""
        return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """Make system call ``number`` with invalid arguments; return its errno, 0 for success."""
        library = ctypes.CDLL(None, use_errno=True)
        values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        result = library.syscall(ctypes.c_long(number), *values)
        return ctypes.get_errno() if result < 0 else 0

    def has_call(self, number: int, *arguments: int | bytes | None) -> bool:
        """Return whether the kernel has system call ``number`` and no seccomp filter denies it."""
        return self.call(number, *arguments) not in (errno.ENOSYS, errno.EPERM)

    def status(self, name: str) -> str:
        """Return a field's value in /proc/self/status, such as ``CapEff``; "" if it is missing."""
        for line in self.read("/proc/self/status").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        return ""
