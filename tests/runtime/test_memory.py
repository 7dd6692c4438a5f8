"""The memory that the waiting init uses in the container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import cgroupfs
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer

MIB = 1 << 20


@deviates(runc="waits as a Go program")
def test_waiting_process_is_small(container: MakeContainer) -> None:
    """Less than 1 MiB of its own between create and start."""
    one = container().created()
    rollup = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
    private = sum(
        int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_")
    )
    assert private < 1024, rollup


@deviates(runc="1.1 needs four times that")
def test_one_mebibyte_is_enough_to_start(container: MakeContainer, bundle: MakeBundle) -> None:
    """The limit applies to the program, not to the runtime."""
    one = bundle("/bin/probe", "sleep")
    one.resources["memory"] = {"limit": MIB}
    made = container(one).started()
    made.wait_output('"devices"')
    limit = cgroupfs.setting(made.pid, "memory", "memory.limit_in_bytes", "memory.max")
    assert int(limit) == MIB
    assert made.status == "running"


@pytest.mark.parametrize("limit", [2 * MIB, 6 * MIB])
@deviates(runc="1.1 needs 4 MiB and more")
def test_small_limits(container: MakeContainer, bundle: MakeBundle, limit: int) -> None:
    one = bundle("/bin/busybox", "echo", "runs")
    one.resources["memory"] = {"limit": limit}
    assert container(one).run().ok().out == "runs\n"


@deviates(runc="a Go program", crun="a program of the host's disk")
def test_waiting_program_is_not_a_file_of_the_host(container: MakeContainer) -> None:
    """CVE-2019-5736: the target of /proc/PID/exe cannot be written."""
    one = container().created()
    exe = Path(f"/proc/{one.pid}/exe")
    assert "memfd:" in str(exe.readlink())
    with pytest.raises(OSError, match=r"busy|permitted|denied"):
        exe.open("r+b")
