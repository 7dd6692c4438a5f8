"""Start stub pods (tests/support/stub_pod.py) next to those of ``ocipod``."""

from __future__ import annotations

import subprocess
import sys

from tests.support import processes, stub_pod
from tests.support.ocipod import Ocipod, PodResult

Process = subprocess.Popen[bytes]


def start(ocipod: Ocipod, *args: str, fault: str = "") -> Process:
    """Start the stub, with pipes; it is killed after the test at the latest."""
    process = subprocess.Popen(
        [sys.executable, stub_pod.__file__, str(ocipod.directory), *args],
        env=ocipod.environment(fault, None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    ocipod.started.append(process)
    return process


def started(ocipod: Ocipod, *args: str, fault: str = "") -> Process:
    """Start a command of ``ocipod``, with pipes; ``finish`` waits for it."""
    pipe = subprocess.PIPE
    return ocipod.popen(*args, fault=fault, stdout=pipe, stderr=pipe)


def finish(ocipod: Ocipod, process: Process) -> PodResult:
    """Let the process continue until it exits."""
    out, err = process.communicate(timeout=60)
    ocipod.started.remove(process)
    ocipod.look()
    command = process.args if isinstance(process.args, list) else []
    return PodResult([str(w) for w in command], process.returncode, out.decode(), err.decode())


def prepared(ocipod: Ocipod) -> str:
    """Return the UUID of a new prepared pod."""
    return finish(ocipod, start(ocipod, "prepare")).ok().out.strip()


def running(ocipod: Ocipod, *args: str) -> tuple[str, Process]:
    """Return the UUID of a new running pod, and its monitor."""
    process = start(ocipod, *(args or ("run",)))
    assert process.stdout is not None
    uuid = process.stdout.readline().decode().strip()
    assert uuid, process.communicate()
    ocipod.look()
    return uuid, process


def exited(ocipod: Ocipod, code: int = 0) -> str:
    """Return the UUID of a new exited pod."""
    uuid, process = running(ocipod, "run", str(code))
    finish(ocipod, process).ok()
    return uuid


def many_exited(ocipod: Ocipod, count: int) -> list[str]:
    """Return the UUIDs of that many new exited pods, sorted."""
    return sorted(finish(ocipod, start(ocipod, "exited", str(count))).ok().out.split())


def stopped(process: Process) -> bool:
    """Return whether the process has reached the point where it stops itself."""
    return processes.until(lambda: processes.state(process.pid) == "T")
