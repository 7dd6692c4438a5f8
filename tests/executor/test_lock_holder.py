"""A pod's lock holder kills the remaining processes of the pod's cgroups, and no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import cgroupfs, project
from tests.support.plugin import TAG


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = str(tmp_path_factory.mktemp("lock_holder") / "check_lock_holder")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Icsrc/pod_init"]
    command = ["gcc", *flags, "-o", built, "tests/executor/check_lock_holder.c"]
    subprocess.run(command, cwd=project.ROOT, check=True)
    return built


def test_a_pid_that_is_used_again_is_spared(program: str) -> None:
    assert subprocess.run([program], timeout=30).returncode == 0


def test_deep_cgroups(program: str, work: Path) -> None:
    """An app with a writable cgroup mount nests them as it likes."""
    top = work / "top"
    top.mkdir()
    assert subprocess.run([program, top], timeout=60).returncode == 0
    subprocess.run(["rm", "-rf", top], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_names_that_the_kernel_hashes_alike(program: str, isolated: None) -> None:
    """In a real cgroup, where the position in a directory is such a hash."""
    top = next(iter(cgroupfs.hierarchies().values())) / f"{TAG}alike"
    top.mkdir()
    try:
        assert subprocess.run([program, top, "alike"], timeout=60).returncode == 0
    finally:
        cgroupfs.remove({top, *(each for each in top.iterdir() if each.is_dir())})
