"""The options of ``ocid``, and their help texts."""

from __future__ import annotations

from ociruntime.commandline.options import Option

SOCKET = "/run/ocid/ocid.sock"

OPTIONS = (
    Option(
        "root",
        "records (default: /var/lib/ociruntime/manager)",
        "DIR",
        details="A second ocid with the same directory refuses to start.",
    ),
    Option(
        "dir",
        "pods and images (default: /var/lib/ociruntime)",
        "DIR",
        details="Images and pods in another directory are not visible.",
    ),
    Option("socket", f"listen on FILE (default: {SOCKET})", "FILE"),
    Option(
        "group",
        "group with access to the socket (default: root)",
        "GROUP",
        details="Members of the group have root privileges through ocid.",
    ),
    Option(
        "runtime",
        "OCI runtime to use (default: ociruntime)",
        "FILE",
        details="runc and crun can be used as well.",
    ),
    Option("insecure-options", "skip checks: image, tls, http, pubkey", "WORD,..."),
    Option("allow-insecure", "checks that clients may skip (default: none)", "WORD,..."),
    Option("system-config", "vendor settings (default: /usr/lib/ociruntime)", "DIR"),
    Option("local-config", "local settings (default: /etc/ociruntime)", "DIR"),
    Option("debug", "enable debug output and tracebacks"),
    Option("version", "print the version", short="v"),
    Option("help", "print help", short="h"),
)

SUMMARY = "the container manager, a daemon that ocictl talks to"
DETAILS = (
    "Runs in the foreground and logs requests to standard error. Containers keep\n"
    "running when ocid stops or crashes; it adopts them when it starts again."
)
