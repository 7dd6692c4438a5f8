"""Messages that a container may send to the host's service manager."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.notify_socket import NotifyRelay, host_address, make_directory, safe_lines


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"READY=1", [b"READY=1"]),
        (b"READY=1\nSTATUS=all is = well\n", [b"READY=1", b"STATUS=all is = well"]),
        (b"WATCHDOG=1\nWATCHDOG=trigger\nWATCHDOG_USEC=1", [b"WATCHDOG=1"]),
        (b"MAINPID=1\nMAINPIDFDID=3\nNOTIFYACCESS=all\nFDSTORE=1\nFDNAME=x\nBARRIER=1", []),
        (b"READY=0\nREADY=12\nXREADY=1\nSTATUS", []),
        (b"STATUS=a\0b", []),
        (b"", []),
    ],
)
def test_only_what_speaks_of_the_service(message: bytes, told: list[bytes]) -> None:
    assert safe_lines(message) == told


def test_addresses() -> None:
    assert host_address(b"/run/systemd/notify") == b"/run/systemd/notify"
    assert host_address(b"@name") == b"\0name"
    with pytest.raises(UsageError, match="vsock"):
        host_address(b"vsock:2:1")


def listener(path: Path) -> socket.socket:
    """Return the service manager's socket."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(str(path))
    made.settimeout(5)
    return made


def test_relay(tmp_path: Path) -> None:
    """A stale socket of a failed `start` is replaced; an exited process ends the wait."""
    make_directory(str(tmp_path))
    (tmp_path / "notify/notify.sock").touch()
    with listener(tmp_path / "host") as host:
        relay = NotifyRelay(str(tmp_path), os.fsencode(tmp_path / "host"), 71)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as container:
            container.sendto(b"STATUS=up", str(tmp_path / "notify/notify.sock"))
        relay.wait_ready(-1)
        assert host.recv(100) == b"STATUS=up"
        assert not relay.ready


def test_relay_without_a_directory(tmp_path: Path) -> None:
    """Neither of the two sockets stays open."""
    with listener(tmp_path / "host"):
        before = os.listdir("/proc/self/fd")
        with pytest.raises(HostError, match=r'/notify/notify\.sock": no such file'):
            NotifyRelay(str(tmp_path), os.fsencode(tmp_path / "host"), 71)
        assert os.listdir("/proc/self/fd") == before


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f'directory "{tmp_path}/gone/notify": no such file'):
        make_directory(f"{tmp_path}/gone")


def test_service_manager_that_has_gone(tmp_path: Path) -> None:
    make_directory(str(tmp_path))
    with listener(tmp_path / "host"):
        relay = NotifyRelay(str(tmp_path), os.fsencode(tmp_path / "host"), 71)
    try:
        with pytest.raises(HostError, match="NOTIFY_SOCKET: connection refused"):
            relay._tell(b"READY=1")
    finally:
        relay.close()
