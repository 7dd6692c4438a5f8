"""What is left out when the daemon imports aiohttp, whose HTTP server it uses on a Unix socket.

At import aiohttp makes two TLS contexts with the host's certificates, for the client that it is as
well; it reads the host's table of MIME types, and has the name of the host remembered. All of it
costs time, and none of it may be in a snapshot.
"""

from __future__ import annotations

import sys


def prepare() -> None:
    """Have ``import ssl`` fail, as in an interpreter without it, and nothing of the host read."""
    import mimetypes
    import platform

    if "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    mimetypes.knownfiles.clear()
    # The original calls uname(2) for all that the module can tell, and keeps the answer.
    platform.system = _system


def _system() -> str:
    return "Linux"
