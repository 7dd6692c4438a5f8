"""The options of ``ocid``, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ociruntime.commandline.options import Option

SOCKET = "/run/ocid/ocid.sock"

OPTIONS: tuple[Option, ...] = (
    ("root", "", "text", "DIR", "records (default: /var/lib/ociruntime/manager)"),
    ("dir", "", "text", "DIR", "pods and images (default: /var/lib/ociruntime)"),
    ("socket", "", "text", "FILE", f"listen on FILE (default: {SOCKET})"),
    ("group", "", "text", "GROUP", "group that may connect (default: root)"),
    ("runtime", "", "text", "FILE", "OCI runtime to use (default: ociruntime)"),
    ("insecure-options", "", "text", "WORD,...", "skip checks: image, tls, http, pubkey"),
    ("allow-insecure", "", "text", "WORD,...", "checks that clients may skip (default: none)"),
    ("system-config", "", "text", "DIR", "vendor settings (default: /usr/lib/ociruntime)"),
    ("local-config", "", "text", "DIR", "local settings (default: /etc/ociruntime)"),
    ("debug", "", "flag", "", "enable debug output and tracebacks"),
    ("version", "v", "flag", "", "print the version"),
    ("help", "h", "flag", "", "print help"),
)

SUMMARY = "the container manager, a daemon that ocictl talks to"
DETAILS = (
    "Runs in the foreground and logs requests to standard error. Containers keep\n"
    "running when ocid stops or crashes; it adopts them when it starts again."
)
