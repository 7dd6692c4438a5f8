"""Paths of sockets that cannot exist."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.stream_socket import connect


@pytest.mark.parametrize("path", ["/nowhere", "/\ud800", f"/{'x' * 4096}", f"/{'x' * 200}"])
def test_paths_without_a_socket(path: str) -> None:
    with pytest.raises(HostError):
        connect(path, "seccomp agent")
