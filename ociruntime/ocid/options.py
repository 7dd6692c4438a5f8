"""The options of ``ocid``, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ociruntime.cli.options import Option

SOCKET = "/run/ocid/ocid.sock"

OPTIONS: tuple[Option, ...] = (
    ("root", "", "text", "DIR", "keep them there (/var/lib/ociruntime/manager)"),
    ("dir", "", "text", "DIR", "where ocipod keeps pods (/var/lib/ociruntime)"),
    ("socket", "", "text", "FILE", f"listen there ({SOCKET})"),
    ("group", "", "text", "GROUP", "who may use the socket besides root (root)"),
    ("runtime", "", "text", "FILE", "the OCI runtime that is called (ociruntime)"),
    ("insecure-options", "", "text", "WORD,...", "checks to leave out: image, tls, http, pubkey"),
    ("allow-insecure", "", "text", "WORD,...", "checks that clients may leave out (none)"),
    ("system-config", "", "text", "DIR", "the distribution's settings (/usr/lib/ociruntime)"),
    ("local-config", "", "text", "DIR", "the administrator's settings (/etc/ociruntime)"),
    ("debug", "", "flag", "", "log more, with tracebacks"),
    ("version", "v", "flag", "", "print the version"),
    ("help", "h", "flag", "", "print help"),
)

SUMMARY = "manage containers: the daemon that ocictl talks to"
DETAILS = (
    "It stays in the foreground. Containers run on when it ends, however it ends, and\n"
    "the next one takes them up again. Requests are logged on standard error."
)
