"""The option --port."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.pods.manifest.ports import sandbox_port


def test_ports_of_pods_without_apps() -> None:
    made = {"name": "80-tcp", "hostPort": 8080, "hostIP": "127.0.0.1"}
    assert sandbox_port("web:tcp:80:127.0.0.1:8080") == made
    assert sandbox_port("80-tcp:127.0.0.1:8080") == made
    for text in ("web:tcp:x:1.2.3.4:80", "web:icmp:80:1.2.3.4:80", "web"):
        with pytest.raises(UsageError, match="--port"):
            sandbox_port(text)
