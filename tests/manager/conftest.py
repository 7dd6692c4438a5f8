"""The fixture of the tests of the container manager."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import rootfs
from tests.support.daemon import Daemon, life


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "daemon" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.root)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def daemon(work: Path) -> Iterator[Daemon]:
    """A running ``ocid``; fails if its containers leave anything on the host."""
    with life(work) as one:
        yield one


@pytest.fixture(scope="module")
def module_daemon(base: Path, isolated: None) -> Iterator[Daemon]:
    """A daemon for all tests of a file: a start takes as long as a short test."""
    work = Path(tempfile.mkdtemp(prefix="m-", dir=base))
    work.chmod(0o755)
    with life(work) as one:
        yield one


@pytest.fixture
def shared_daemon(module_daemon: Daemon) -> Iterator[Daemon]:
    """The module's daemon, without containers or events of earlier tests."""
    yield module_daemon
    for one in module_daemon.list():
        module_daemon.remove(one["id"])
    assert module_daemon.pods.pods() == []
    os.truncate(module_daemon.root / "events.jsonl", 0)


@pytest.fixture
def shell_root(work: Path) -> str:
    """A root filesystem with busybox, for ``rootfs``."""
    top = work / "shell"
    (top / "bin").mkdir(parents=True)
    for place in ("etc", "tmp", "var", "dev", "proc", "sys"):
        (top / place).mkdir()
    (top / "bin" / "busybox").write_bytes(Path(rootfs.BUSYBOX).read_bytes())
    (top / "bin" / "busybox").chmod(0o755)
    for applet in ("sh", "sleep", "cat", "echo", "true", "false", "ls", "kill", "date", "usleep"):
        (top / "bin" / applet).symlink_to("busybox")
    (top / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    return str(top)
