"""podman with systemd as its cgroup manager, its default."""

from __future__ import annotations

import pytest

from tests.engines.image import NAME
from tests.engines.podman import Podman
from tests.support import cgroupfs, processes, systemd

pytestmark = pytest.mark.skipif(
    not systemd.booted() or not cgroupfs.is_v2(),
    reason="needs systemd and cgroup v2, as in the v2 box",
)
MIB = 1 << 20


@pytest.fixture(scope="module")
def manager(isolated: None) -> None:
    """Systemd's sockets in /run; requested before the leak check of /run."""
    systemd.show_manager()


@pytest.fixture
def by_systemd(manager: None, podman: Podman) -> Podman:
    return podman


def test_limits(by_systemd: Podman) -> None:
    """The container is one scope below machine.slice; its properties match its control files."""
    limits = ("--memory=64m", "--memory-swap=96m", "--pids-limit=17", "--cpus=0.5")
    words = ("run", "-d", "--network=none", "--name", "one", *limits, NAME, "sleep", "100")
    by_systemd("--cgroup-manager=systemd", *words).ok()
    name = f"libpod-{by_systemd.inspect('one', '.Id')}.scope"
    assert systemd.properties(
        name, "Slice", "MemoryMax", "MemorySwapMax", "TasksMax", "CPUQuotaPerSecUSec"
    ) == {
        "Slice": "machine.slice",
        "MemoryMax": str(64 * MIB),
        "MemorySwapMax": str(32 * MIB),
        "TasksMax": "17",
        "CPUQuotaPerSecUSec": "500ms",
    }
    place = cgroupfs.directory(by_systemd.pid("one"), "")
    assert place.name == name
    assert (place / "memory.max").read_text() == f"{64 * MIB}\n"
    assert (place / "cpu.max").read_text() == "50000 100000\n"
    by_systemd("--cgroup-manager=systemd", "rm", "--force", "--time", "0", "one").ok()
    assert not place.exists()
    assert processes.until(lambda: systemd.units(name.removesuffix(".scope")) == [])
