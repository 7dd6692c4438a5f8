"""Trimming of the import of aiohttp, of which the daemon uses only the HTTP server.

At import, aiohttp creates two TLS contexts with the host's certificates for its HTTP client, reads
the host's table of MIME types, and caches the host's name.  That costs time, and data of the host
must not get into a snapshot.
"""

from __future__ import annotations

import sys


def prepare() -> None:
    """Make ``import ssl`` fail, as in an interpreter built without it; read no host files."""
    import mimetypes
    import platform

    if "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]
    mimetypes.knownfiles.clear()
    # The original calls uname(2) and caches all of its fields, including the host's name.
    platform.system = _system


def _system() -> str:
    return "Linux"
