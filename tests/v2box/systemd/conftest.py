"""The runtime with systemd as its cgroup manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes, systemd
from tests.support.runtime import Runtime


@pytest.fixture(scope="session")
def runtime(isolated: None, state_root: Path, pytestconfig: pytest.Config) -> Runtime:
    """The runtime under test; every command has the option, as with containerd."""
    # A plugin of pytest, which must not be imported before pytest does it.
    from tests.support.plugin import runtime_path

    path = runtime_path(pytestconfig)
    assert path is not None
    systemd.show_manager()
    return Runtime(path, state_root, "--systemd-cgroup")


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> Iterator[None]:
    """Check that no processes, mounts, cgroups, files or units are left."""
    from tests.support.plugin import TAG

    yield
    processes.until(lambda: not systemd.units(TAG), 3)
    found = systemd.units(TAG)
    for unit in found:
        systemd.systemctl("stop", unit)
    assert found == []
