"""``ocictl login`` and ``logout``: the daemon keeps credentials in its own settings."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import images
from tests.support.daemon import Daemon
from tests.support.registry import Registry


@pytest.fixture
def daemon(work: Path, isolated: None) -> Iterator[Daemon]:
    """A daemon with settings of its own, not the host's."""
    (work / "config").mkdir()
    one = Daemon(work, f"--local-config={work}/config")
    try:
        yield one.start()
    finally:
        one.finish()


def test_images_are_pulled_after_a_login(daemon: Daemon) -> None:
    with Registry(basic=("me", "secret")) as registry:
        registry.push("team/web", "1", images.build([images.pack({"a": "1"})]))
        name = f"{registry.host}/team/web:1"
        assert daemon.ctl("pull", name).status == 1
        command = [*daemon.client, "login", "-u", "me", "--password-stdin", registry.host]
        done = subprocess.run(command, input=b"wrong\n", capture_output=True)
        assert (done.returncode, b"401" in done.stderr) == (1, True)
        done = subprocess.run(command, input=b"secret\n", capture_output=True)
        assert (done.returncode, done.stdout) == (0, b"Login succeeded\n")
        daemon.ctl("pull", name).ok()
        assert "secret" not in daemon.log.read_text()
        daemon.ctl("logout", registry.host).ok()
        assert daemon.ctl("logout", registry.host).status == 1
