"""Start a program as systemd does when a client connects to its sockets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runtime import Result, execute


def activated(command: Sequence[str], *files: Path, count: int = 1, names: str = "") -> Result:
    """Run ``command`` to its end with ``files`` from descriptor 3 on.

    The first ``count`` of them are sockets; ``names`` is the value of LISTEN_FDNAMES, if any.
    """
    opened = "".join(f"exec {number}<{file}; " for number, file in enumerate(files, 3))
    named = f" LISTEN_FDNAMES={names}" if names else ""
    script = f'{opened}export LISTEN_FDS={count} LISTEN_PID=$${named}; exec "$@"'
    return execute(["sh", "-c", script, "sh", *command])
