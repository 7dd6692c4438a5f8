"""The commands in README.md for containers print the output shown there.

The test has a host of its own, whose registry has what the page's images need.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support import readme
from tests.support.daemon import OCICTL, OCID, Daemon
from tests.support.images import build, busybox_layer, member, pack
from tests.support.network_host import NetworkHost, namespaces, own_host
from tests.support.registry import Registry

__all__ = ("namespaces", "own_host")


TIMEOUT = 80  # seconds


def test_session(daemon: Daemon, host: NetworkHost, work: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    daemon.stop()
    session = readme.Session(section="Named containers")
    bin = work / "bin"
    bin.mkdir()
    config = work / "config"
    config.mkdir()
    options = [*daemon.command()[1:], f"--local-config={config}"]
    (bin / "ocid").write_text(f'#!/bin/sh\nexec {OCID} {" ".join(options)} "$@"\n')
    # A reader takes longer to type a command than the daemon to start, or the server in `web`.
    (bin / "ocictl").write_text(
        f"#!/bin/sh\nuntil [ -S {daemon.socket} ]; do sleep 0.05; done\n"
        f'exec {OCICTL} --socket={daemon.socket} "$@"\n'
    )
    curl = f"{shutil.which('curl')} --retry 9 --retry-delay 1 --retry-connrefused"
    (bin / "curl").write_text(f'#!/bin/sh\nexec {curl} "$@"\n')
    for program in bin.iterdir():
        program.chmod(0o755)
    environment = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(work)}
    with Registry() as registry, (work / "out").open("w+") as out:
        link = {"linkname": "busybox", "mode": 0o777}
        more = {f"bin/{name}": member(tarfile.SYMTYPE, **link) for name in ("httpd", "wget")}
        image = build([busybox_layer(), pack(more)], {"Cmd": ["sh"]})
        registry.push("library/busybox", "latest", image)
        mirrors = {"mirrors": {"docker.io": [registry.host]}}
        (config / "registries.json").write_text(json.dumps(mirrors))
        shell = subprocess.Popen(
            ["sh", "-c", session.script()],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=work,
        )
        try:
            shell.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            pass  # the output shows how far it came
        finally:
            shell.kill()
            shell.wait()
        text = (work / "out").read_text()
    session.check(text, work)
    assert daemon.pods.pods("run") == []
    host.assert_clean()
