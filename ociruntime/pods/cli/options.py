"""The global options of ``ocipod``, and options that several commands share."""

from __future__ import annotations

from ociruntime.commandline.options import Option

GLOBAL_OPTIONS = (
    Option(
        "dir",
        "directory of pods and images",
        "DIR",
        details=("Each directory has its own images and pods. The default is /var/lib/ociruntime."),
    ),
    Option("system-config", "vendor settings (default: /usr/lib/ociruntime)", "DIR"),
    Option("local-config", "local settings (default: /etc/ociruntime)", "DIR"),
    Option(
        "user-config",
        "user settings",
        "DIR",
        details="User settings override local and vendor settings.",
    ),
    Option(
        "runtime",
        "OCI runtime to use (default: ociruntime)",
        "FILE",
        details=("runc and crun can be used as well. A name without a slash is looked up in PATH."),
    ),
    Option(
        "insecure-options",
        "skip checks: image, tls, http, ...",
        "WORD,...",
        details=(
            "A comma-separated list of: none, image, tls, http, pubkey, capabilities, "
            "paths, seccomp, all-fetch (image, tls, http, pubkey), all-run (capabilities, "
            "paths, seccomp), all."
        ),
    ),
    Option("debug", "enable debug output and tracebacks"),
    # For the manager: see context.py.
    Option("die-with-parent", value="PID", kind="count"),
    Option("nofile", value="SOFT:HARD", kind="text"),
    Option("help", "print help; also after a command", short="h"),
)
UUID_FILE = Option("uuid-file", "read the UUID from FILE", "FILE")
FORMAT = Option("format", "output format", "json|json-pretty", kind="choice")
TIME = Option("time", "timeout before SIGKILL (default: 10)", "SECONDS", kind="count", short="t")
