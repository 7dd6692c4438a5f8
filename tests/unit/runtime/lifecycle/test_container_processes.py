"""Signals to the processes of a container, and finding those without a cgroup."""

from __future__ import annotations

import os
import signal
import subprocess
from errno import EPERM

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.process import process_stat
from ociruntime.runtime.lifecycle import container_processes
from tests.support.processes import ends_with_few_descriptors


def test_more_processes_than_descriptors() -> None:
    """Each is signalled once, as many at a time as can be held."""

    def act(pids: list[int]) -> None:
        container_processes.signal_listed(lambda: pids, signal.SIGTERM)

    assert ends_with_few_descriptors(act) == [-signal.SIGTERM] * 40


def test_a_process_that_proc_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid=1 those of other users cannot be read, and are none of the container's."""

    def stat(pid: int) -> tuple[bool, int, int]:
        if pid == 1:
            raise HostError("read /proc/1/stat", PermissionError(EPERM, os.strerror(EPERM)))
        return process_stat(pid)

    monkeypatch.setattr(container_processes, "process_stat", stat)
    with subprocess.Popen(["sleep", "100"]) as child:
        found = container_processes.descendants(os.getpid(), with_namespace=False)
        child.kill()
    assert child.pid in found
