"""The global options of ``ocictl``, and options that commands share."""

from __future__ import annotations

from ociruntime.commandline.options import Option

SOCKET = "/run/ocid/ocid.sock"

GLOBAL_OPTIONS = (
    Option(
        "socket",
        f"socket of ocid (default: {SOCKET})",
        "PATH",
        details="Only root and the group of `ocid --group` may connect.",
    ),
    Option("debug", "enable debug output and tracebacks"),
    Option("help", "print help; also after a command", short="h"),
    Option("version", "print the version", short="v"),
)
FORMAT = Option("format", "format: json, `table COLUMN,...` or {{.Field}}", "FORM")
INSPECT_FORMAT = Option("format", "format: json or a template with {{.Field}}", "FORM", short="f")
QUIET = Option("quiet", "print only IDs", short="q")
NO_LEGEND = Option("no-legend", "omit the header")
DETACH_KEYS_OPTION = Option("detach-keys", "detach key sequence (default: ctrl-p,ctrl-q)", "KEYS")
TIME = Option("time", "timeout before SIGKILL", "SECONDS", kind="count", short="t")
TIMEOUT = Option("timeout", value="SECONDS", kind="count")  # docker's newer name of --time
SINCE = Option("since", "start time: 10m (ago) or a date", "TIME")
UNTIL = Option("until", "end time", "TIME")
FORCE = Option("force", "do not ask for confirmation", short="f")
FILTER = Option("filter", "filter the output", "KEY=VALUE", kind="list", short="f")

CONTAINER_STATUS = (
    ("N", "exit status of the command"),
    ("125", "the container did not start, or its exit status is unknown"),
    ("126", "the command cannot be executed"),
    ("127", "the command was not found"),
    ("128 + N", "signal N killed the command"),
)
ATTACH_STATUS = (
    ("N", "exit status of the container's command"),
    ("1", "failure; the error message is on standard error"),
    ("128 + N", "signal N killed the command"),
)
# For commands that start a container and do not wait for its exit.
START_STATUS = (
    ("0", "success"),
    ("1", "failure; the error message is on standard error"),
    ("125", "the container could not be set up"),
    ("126", "the container's command cannot be executed"),
    ("127", "the container's command was not found"),
)
