"""Registries and filesystems that do not answer must not block other requests."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.hung import Silent
from tests.support.daemon import STAYS, Daemon


def test_slow_registries_block_no_other_request(daemon: Daemon, shell_root: str) -> None:
    """While images are pulled, containers are created, started, killed and removed."""
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    stored = daemon.ctl("pull", f"dir:{shell_root}").ok().out.strip()
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(8) as pool:
        silent.settimeout(30)
        image = f"docker://127.0.0.1:{silent.getsockname()[1]}/image"
        specs = [{"image": f"{image}-{number}", "network": "none"} for number in range(8)]
        slow = [pool.submit(daemon, "POST", "/v1/containers", spec) for spec in specs]
        asking = []
        try:
            asking = [silent.accept()[0] for _ in slow]
            daemon.verb("c1", "kill").ok()
            daemon.wait_for("c1", "stopped")
            daemon.verb("c1", "start").ok()
            daemon.verb("c1", "pause").ok()
            daemon.verb("c1", "unpause").ok()
            daemon.run("c2", rootfs=shell_root, command=STAYS)
            daemon.remove("c1")
            daemon.run("c3", image=stored, command=STAYS)
            assert not any(one.done() for one in slow)
        finally:
            silent.close()
            for connection in asking:
                connection.close()
        for one in slow:
            one.result(60).failed(500, "127.0.0.1")


def test_hung_root_file_system(daemon: Daemon, shell_root: str, work: Path) -> None:
    """Its disk does not answer: only the container on it waits."""
    disk = work / "disk"
    (disk / "root").mkdir(parents=True)
    hung = Silent(disk, "deaf")
    with ThreadPoolExecutor(1) as pool:
        try:
            hung.fall_silent()
            spec = {"rootfs": str(disk / "root"), "command": STAYS, "network": "none"}
            waiting = pool.submit(daemon, "POST", "/v1/containers", spec)
            daemon.run("other", rootfs=shell_root, command=STAYS)
            assert daemon.status("other") == "running"
            assert not waiting.done()
        finally:
            hung.end()
        waiting.result().failed(400, "rootfs", "not found")
