"""The global options of ``ociruntime``."""

from __future__ import annotations

from ociruntime.commandline.options import Option

GLOBAL_OPTIONS = (
    Option(
        "root",
        "directory for the state of containers",
        "DIR",
        details=(
            "The default is /run/ociruntime for root and $XDG_RUNTIME_DIR/ociruntime for "
            "others. Every command on a container needs the same root."
        ),
    ),
    Option(
        "log",
        "append errors to FILE, besides standard error",
        "FILE",
        details="A prefix file: is ignored.",
    ),
    Option(
        "log-format",
        "log format (default: text)",
        "text|json",
        kind="choice",
        details=(
            "With json every line is an object with level, msg and time. The default is text."
        ),
    ),
    Option(
        "log-level",
        "log level (default: warning)",
        "error|warning|info|debug",
        kind="choice",
        details="The default is warning.",
    ),
    Option(
        "debug",
        "set the log level to debug and show tracebacks",
        details="All faults in the shape of config.json are listed, not only the first.",
    ),
    Option(
        "cgroup-manager",
        "cgroup driver (default: cgroupfs)",
        "cgroupfs|systemd|disabled",
        kind="choice",
        details=(
            "cgroupfs creates the cgroup directly. systemd creates a scope or a slice; "
            "linux.cgroupsPath is then SLICE:PREFIX:NAME. disabled leaves the container in "
            "the caller's cgroup and refuses limits."
        ),
    ),
    Option("systemd-cgroup", "same as --cgroup-manager=systemd"),
    Option(
        "rootless",
        "ignore cgroup permission errors (default: auto)",
        "true|false|auto",
        kind="choice",
        details=(
            "auto means true for unprivileged users, and in user namespaces that they created."
        ),
    ),
    Option("criu", "path of the criu binary", "FILE"),
    Option("version", "print the version", short="v"),
    Option("help", "print help; also after a command", short="h"),
    Option("usage", short="?"),
)
