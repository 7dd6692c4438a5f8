"""Namespaces of other processes: those that differ, and the id maps of a joined one."""

from __future__ import annotations

import errno
import os
import posix
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.linux import NAMESPACES
from ociruntime.runtime.host import mount_namespaces, namespaces
from ociruntime.runtime.host.namespaces import check_settings, joined_extents, namespaces_apart

GONE = 1 << 22  # no process has this pid


def links(monkeypatch: pytest.MonkeyPatch, **missing: int) -> None:
    """Give process 7 another network namespace; the links in ``missing`` cannot be read."""

    def readlink(path: str) -> str:
        _, _, pid, _, kind = path.split("/")
        number = missing.get(f"{'own' if pid == 'self' else 'other'}_{kind}", 0)
        if number:
            raise OSError(number, os.strerror(number), path)
        return f"{kind}:[{2 if (pid, kind) == ('7', 'net') else 1}]"

    monkeypatch.setattr(posix, "readlink", readlink)


def test_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that the kernel does not know cannot differ."""
    links(monkeypatch, own_time=errno.ENOENT)
    assert namespaces_apart(7) == NAMESPACES["network"]
    assert namespaces_apart(8) == 0


def test_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match=f"process {GONE}: no such file") as caught:
        namespaces_apart(GONE)
    assert caught.value.errno == errno.ENOENT
    links(monkeypatch, own_user=errno.EACCES)
    with pytest.raises(HostError, match="this process: user: permission denied"):
        namespaces_apart(7)


@pytest.mark.parametrize(
    ("extents", "joined"),
    [
        ([(5, 105, 5), (0, 100, 5)], [(0, 100, 10)]),
        ([(0, 100, 5), (5, 200, 5)], [(0, 100, 5), (5, 200, 5)]),
        ([(0, 100, 5), (6, 106, 5)], [(0, 100, 5), (6, 106, 5)]),
        ([], []),
    ],
)
def test_joined_extents(
    extents: list[tuple[int, int, int]], joined: list[tuple[int, int, int]]
) -> None:
    """Ranges are one if they are adjacent inside and outside."""
    assert joined_extents(extents) == joined


def joining(path: str, size: int) -> Any:  # noqa: ANN401
    mapping = {"containerID": 0, "hostID": 0, "size": size}
    members = {"uidMappings": [mapping], "gidMappings": [mapping]}
    return {"linux": {"namespaces": [{"type": "user", "path": path}], **members}}


def test_mappings_of_a_joined_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with those of a process in it, if there is one that can be read."""
    path = f"/proc/{os.getpid()}/ns/user"
    with pytest.raises(ConfigError) as caught:
        check_settings(joining(path, 7))
    assert caught.value.where == "linux.uidMappings"
    assert path in caught.value.message
    for unknown in (f"/proc/{GONE}/ns/user", "/dev/null"):
        check_settings(joining(unknown, 7))

    def fail(name: str) -> bytes:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)

    monkeypatch.setattr(namespaces, "read_file", fail)
    check_settings(joining(path, 7))
    assert namespaces._read("self/status") == ""


def test_refused_mount_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    lib = SimpleNamespace(
        oci_bind_privately=lambda path: -errno.EPERM, oci_setns=lambda fd, kind: 0
    )
    monkeypatch.setattr("ociruntime._system_calls.lib", lib)
    before = len(os.listdir("/proc/self/fd"))
    with (
        pytest.raises(HostError, match=r'mount "/x".*: operation not permitted'),
        mount_namespaces.private_root("/x"),
    ):
        pytest.fail("entered")
    lib.oci_bind_privately = lambda path: 0
    lib.oci_setns = lambda fd, kind: -errno.EINVAL
    entered = []
    with (
        pytest.raises(HostError, match="original mount namespace: invalid argument"),
        mount_namespaces.private_root("/x"),
    ):
        entered.append(True)
    assert entered
    assert len(os.listdir("/proc/self/fd")) == before


def test_mount_of_a_closed_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match=r"fdinfo/1048576.: no such file"):
        mount_namespaces.mount_id(1 << 20)
    monkeypatch.setattr(mount_namespaces, "read_file", lambda path: b"pos:\t0\n")
    with pytest.raises(HostError, match="mnt_id"):
        mount_namespaces.mount_id(0)
