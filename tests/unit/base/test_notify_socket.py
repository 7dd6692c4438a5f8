"""Messages that a container may send to the host's service manager."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.base.notify_socket import host_address, safe_lines


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
