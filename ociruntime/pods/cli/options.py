"""The global options of ``ocipod``, options of several commands, and the table of commands."""

from __future__ import annotations

from ociruntime.commandline.options import Option
from ociruntime.commandline.program import Groups, Program

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

# Title in the help -> module -> its commands; internal commands have no title.
GROUPS: Groups = {
    "pods": {
        "run_pods": ("run", "prepare", "run-prepared"),
        "pods": ("list", "status", "rm", "gc", "cat-manifest", "stop", "version"),
        "logs": ("logs",),
        "apps": ("attach", "enter"),
        "exports": ("export",),
    },
    "apps of a running pod": {
        "run_pods": ("app sandbox", "app add"),
        "apps": ("app start", "app stop", "app rm", "app list", "app status", "app exec"),
        "app_files": ("app copy-out", "app copy-in", "app diff"),
    },
    "images": {
        "fetch": ("fetch", "image load", "trust", "config"),
        "login": ("login", "logout"),
        "images": (
            "image list",
            "image rm",
            "image gc",
            "image verify",
            "image cat-manifest",
            "image inspect",
            "image history",
            "image tag",
        ),
        "exports": ("image export", "image extract", "image render"),
    },
    "": {"monitor": ("monitor",)},
}

PROGRAM = Program(
    "ocipod",
    "ociruntime.pods.cli",
    "Run pods of containers without a daemon, and manage images.",
    GLOBAL_OPTIONS,
    GROUPS,
)
