"""systemd is the init of the test VM, for tests that need its D-Bus interface."""

from __future__ import annotations

from pathlib import Path

from tests.support import systemd
from tests.support.runtime import execute

MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")


def test_it_is() -> None:
    assert Path("/proc/1/comm").read_text() == "systemd\n"
    systemd.show_manager()
    words = ("get-property", *MANAGER, "org.freedesktop.systemd1.Manager", "ControlGroup")
    assert execute(["busctl", *words]).ok().out == 's ""\n'
    controllers = Path("/sys/fs/cgroup/cgroup.subtree_control").read_text().split()
    assert {"memory", "pids"} <= set(controllers)
