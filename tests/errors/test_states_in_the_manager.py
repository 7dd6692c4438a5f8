"""Whole messages of ``ocictl`` for what a container's state, or a container, does not allow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import rootfs
from tests.support.daemon import Daemon, life

pytestmark = pytest.mark.root

# What brings the container "c" to its next state, and what is refused there.
STAGES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "inspect c",
        {
            "container stop c": 'stop container "c": its status is "created"'
            " (only a running container can be stopped)",
            "attach c": 'attach to container "c": its status is "created"'
            " (use ocictl start --attach)",
            "volume rm v": 'remove volume "v": in use by container c (remove the containers first)',
            "network rm default": 'remove network "default": it is built in',
            "start nope": 'no container with name or ID "nope" found',
            "rmi nope": 'image "nope" is not in the store',
        },
    ),
    (
        "start c",
        {
            "container start c": 'start container "c": its status is "running"'
            " (only a created or stopped container can be started)",
            "container delete c": 'remove container "c": its status is "running"'
            " (stop the container first, or use --force)",
            "rm c": 'remove container "c": its status is "running"'
            " (stop the container first, or use --force)",
            "unpause c": 'resume container "c": it is not paused',
        },
    ),
    (
        "stop --time=0 c",
        {
            "container stop c": 'stop container "c": its status is "stopped"'
            " (only a running container can be stopped)",
            "attach c": 'attach to container "c": its status is "stopped"'
            " (use ocictl start --attach)",
            "pause c": 'container "c" is not running: its status is "stopped"',
        },
    ),
)


@pytest.fixture
def daemon(work: Path) -> Iterator[Daemon]:
    with life(work) as one:
        yield one


def test_messages(daemon: Daemon, work: Path) -> None:
    (work / "root" / "bin").mkdir(parents=True)
    shutil.copy(rootfs.BUSYBOX, work / "root" / "bin" / "sleep")
    words = ("create", "--name=c", "--network=none", "--volume=v:/v", f"--rootfs={work}/root")
    daemon.ctl(*words, "/bin/sleep", "100").ok()
    for change, refused in STAGES:
        daemon.ctl(*change.split()).ok()
        for command, message in refused.items():
            result = daemon.ctl(*command.split())
            assert (result.status, result.out) == (1, "")
            assert result.err == f"ocictl: {message}\n"
