"""Replace the host's /dev for a test, attack its nodes, and check that they are unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import isolation, static_program

TAMPER_SOURCE = Path(__file__).with_name("tamper.c")
MS_BIND = 4096
NODES = {"full": 7, "null": 3, "random": 8, "urandom": 9, "zero": 5}


def facts(name: str) -> tuple[object, ...]:
    """Return all properties of a device node that a container must not change."""
    path = f"/dev/{name}"
    seen = os.lstat(path)
    owner = (oct(seen.st_mode), seen.st_uid, seen.st_gid)
    times = (seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
    return (*owner, os.major(seen.st_rdev), os.minor(seen.st_rdev), *times, *os.listxattr(path))


@pytest.fixture(autouse=True)
def host_devices(isolated: None, _watch: None) -> Iterator[None]:
    """Mount a private copy of /dev over the host's; fail if one of its nodes has changed."""
    kept = os.open("/dev", os.O_PATH)
    isolation.mount("tmpfs", "/dev", "tmpfs", data="mode=755")
    try:
        for name, minor in NODES.items():
            os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(f"/dev/{name}", 0o666)
        os.mknod("/dev/tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
        os.chmod("/dev/tty", 0o666)
        for name in ("pts", "shm", "mqueue"):
            if os.path.isdir(f"/proc/self/fd/{kept}/{name}"):
                os.mkdir(f"/dev/{name}")
                isolation.mount(f"/proc/self/fd/{kept}/{name}", f"/dev/{name}", "", MS_BIND)
        os.symlink("pts/ptmx", "/dev/ptmx")
        os.symlink("/proc/self/fd", "/dev/fd")
        before = {name: facts(name) for name in NODES}
        yield
        assert {name: facts(name) for name in NODES} == before
    finally:
        isolation.unmount("/dev")
        os.close(kept)


@pytest.fixture(scope="session")
def tamper(base: Path) -> Path:
    """Build the attacker, a static program."""
    return static_program.build(base / "tamper", TAMPER_SOURCE)
