"""Texts of the manual page ``ocid``, except the help texts of its options."""

from __future__ import annotations

DESCRIPTION = (
    "ocid is the container manager: it creates containers from images or directories, starts and "
    "stops them, restarts them by their policy, and records their exit codes. Its client is "
    "ocictl(1); programs use its HTTP API on a Unix socket.\n\n"
    "A container is a pod of ocipod(1) with one app and a monitor process of its own. No container "
    "is a child of ocid. ocid may stop or crash at any time: containers keep running, and the next "
    "ocid adopts them, with their logs and the exit codes of containers that have exited.\n\n"
    "ocid runs in the foreground, logs each request and its user to standard error, and stops on "
    "SIGTERM or SIGINT. Only one ocid can use a directory. It supports socket activation by "
    "systemd (LISTEN_FDS) and notifies systemd when it is ready."
)

ARGUMENTS: tuple[tuple[str, str, str], ...] = ()
LISTED: dict[str, str] = {}
COMPLETED_BY = {"DIR": "directory", "FILE": "file"}
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "stopped by a signal"),
    ("1", "cannot start; the error is on standard error"),
)

FILES = (
    ("/run/ocid/ocid.sock", "the socket, for root and the group of --group"),
    ("/var/lib/ociruntime/manager", "records of containers, and events.jsonl"),
    ("/var/lib/ociruntime", "pods and images, shared with ocipod"),
)
EXAMPLES = (
    ("Run for root only", "ocid &"),
    ("Let the members of a group connect", "ocid --group=containers"),
    ("Run as a service", "systemctl enable --now ocid.socket"),
)
SECTIONS = (("EXIT STATUS", EXIT_STATUS), ("FILES", FILES))
