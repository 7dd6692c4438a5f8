"""The container manager under systemd, with the packaged units."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes, project, systemd
from tests.support.daemon import OCICTL, OCID, STARTING
from tests.support.ocipod import RUNTIME, Ocipod
from tests.support.plugin import MakeBundle
from tests.support.runtime import Result, execute

UNITS = ("ocid.socket", "ocid.service")
PLACE = systemd.HOST / "run/systemd/system"
SOCKET = systemd.HOST / "run/ocid/ocid.sock"


class Service:
    """``ocid.socket``, on which systemd listens, and ``ocid.service``."""

    def __init__(self, work: Path) -> None:
        self.pods = Ocipod(work / "data")

    def ocictl(self, *words: str) -> Result:
        try:
            return execute([str(OCICTL), f"--socket={SOCKET}", *words])
        finally:
            self.pods.look()

    def state(self) -> str:
        return systemd.properties("ocid.service", "ActiveState")["ActiveState"]

    def pid(self) -> int:
        return int(systemd.properties("ocid.service", "MainPID")["MainPID"])

    def record(self, name: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.ocictl("inspect", name).ok().out)
        state: dict[str, Any] = found[0]["State"]
        return state


@pytest.fixture
def service(work: Path) -> Iterator[Service]:
    """The units with directories of the test, and the socket as systemd has opened it."""
    one = Service(work)
    words = (OCID, f"--root={work}/m", f"--dir={one.pods.directory}", f"--runtime={RUNTIME}")
    started = " ".join(map(str, words))
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in UNITS:
        shutil.copy(project.ROOT / "packaging/systemd" / name, PLACE)
    own = PLACE / "ocid.service.d"
    own.mkdir()
    (own / "test.conf").write_text(f"[Service]\nExecStart=\nExecStart={started}\n")
    try:
        systemd.systemctl("daemon-reload")
        systemd.systemctl("start", "ocid.socket")
        yield one
    finally:
        one.pods.finish()
        systemd.systemctl("stop", *UNITS)
        shutil.rmtree(own)
        for name in UNITS:
            (PLACE / name).unlink()
        systemd.systemctl("daemon-reload")


def test_a_container_outlives_its_daemon(service: Service, bundle: MakeBundle) -> None:
    """The first request starts the daemon; systemd stops and restarts only the daemon."""
    assert service.state() == "inactive"
    assert f"{SOCKET.stat().st_mode:o}".endswith("660")
    rootfs = bundle().path / "rootfs"
    words = ("--name=one", "--network=none", f"--rootfs={rootfs}", "sleep", "1000")
    service.ocictl("run", "-d", *words).ok()
    assert service.state() == "active"
    daemon, first = service.pid(), service.record("one")
    assert first["Status"] == "running"

    systemd.systemctl("restart", "ocid.service")
    assert service.pid() != daemon
    assert service.record("one")["Pid"] == first["Pid"]

    daemon = service.pid()
    os.kill(daemon, signal.SIGKILL)
    assert processes.until(lambda: service.pid() not in (0, daemon), STARTING)
    assert service.record("one")["Pid"] == first["Pid"]

    systemd.systemctl("stop", "ocid.service")
    assert processes.alive(first["Pid"])
    assert service.record("one")["Pid"] == first["Pid"], "asked for, it is there again"
    service.ocictl("rm", "-f", "one").ok()
    assert service.ocictl("ps", "-aq").ok().out == ""


def test_what_is_to_run_always(service: Service, bundle: MakeBundle) -> None:
    """It runs again without a request: the unit is started at boot."""
    rootfs = bundle().path / "rootfs"
    words = ("--name=one", "--network=none", "--restart=always", f"--rootfs={rootfs}")
    service.ocictl("run", "-d", *words, "sleep", "1000").ok()
    first = service.record("one")["Pid"]
    systemd.systemctl("stop", *UNITS)
    os.kill(first, signal.SIGKILL)
    assert processes.until(lambda: not processes.alive(first), STARTING)
    systemd.systemctl("start", "ocid.service")
    assert processes.until(lambda: service.record("one")["Pid"] not in (None, 0, first), STARTING)
    service.ocictl("rm", "-f", "one").ok()
