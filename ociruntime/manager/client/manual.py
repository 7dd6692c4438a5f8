"""Texts of the manual pages of ``ocictl``, and data for its shell completions.

This module is loaded only when manual pages and completions are built.
"""

from __future__ import annotations

DESCRIPTION = (
    "ocictl is the client of ocid, the container manager. It talks HTTP and JSON over a Unix "
    "socket. ocid manages containers by name, restarts them by their policy, and records their "
    "exit codes. A container is a pod of `ocipod` with one app and its own monitor process. "
    "Containers keep running when ocid stops, and ocid adopts them when it starts again.\n\n"
    "Commands and options follow docker and podman. The `container` commands are strict, for "
    "scripts: they fail if there is nothing to do, and their tables have fixed columns.\n\n"
    "Commands can be abbreviated to a unique prefix. A container is given by its name, its ID or a "
    "unique prefix of the ID. An error message is one line on standard error."
)

_IMAGE = "The section IMAGES of ocipod(1) lists the forms of IMAGE."

# (prefix of command names, argument, description for the manual pages of these commands).
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "CONTAINER", "CONTAINER is a name, an ID or a unique prefix of an ID."),
    ("pod", "UUID", "UUID is the UUID of a pod, or a unique prefix of the UUID."),
    ("run", "IMAGE", _IMAGE),
    ("create", "IMAGE", _IMAGE),
    ("pull", "IMAGE", _IMAGE),
    ("rmi", "IMAGE", "IMAGE is the name or the ID of an image in the store."),
)

LISTED = {
    "container": "ps --all --format='{{.Name}}'",
    "image": "images --format='{{.Name}}'",
    "pod": "pod ls --quiet",
    "network": "network ls --quiet",
}
COMPLETED_BY = {
    "CONTAINER": "container",
    "UUID": "pod",
    "NETWORK": "network",
    "IMAGE": "image",
    "DIR": "directory",
    "FILE": "file",
    "PATH": "file",
    "SIGNAL": "signal",
}
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "success"),
    ("1", "failure; the error message is on standard error"),
    ("2", "no command given"),
    ("125", "the container did not start, or its exit status is unknown"),
    ("126", "the container's command cannot be executed"),
    ("127", "the container's command was not found"),
    ("130", "interrupted"),
)
STATUS = (
    ("created", "never started"),
    ("running", "the command is running"),
    ("paused", "all processes are frozen"),
    ("stopped", "exited; files and logs are kept"),
    ("restarting", "exited; the restart policy will start it again"),
    ("removing", "being removed"),
    ("unknown", "the pod cannot be read; `inspect` shows the reason"),
    ("corrupt", "the record in ocid cannot be read; `rm -f` removes the container"),
)

FORMS = (
    ("json", "one JSON document"),
    ("table COLUMN,...", "a table with these columns and a header"),
    ("TEXT", "one line for each object, with {{.Field}} replaced by the value of the field"),
)

FILES = (
    ("/run/ocid/ocid.sock", "socket of ocid; see --socket"),
    ("/var/lib/ociruntime/manager", "records of containers"),
    ("/var/lib/ociruntime", "pods and images, shared with ocipod"),
)

# (description, command line).
EXAMPLES = (
    ("Run a container in the background", "ocictl run -d --name web -p 8080:80 nginx"),
    ("Follow the logs of a container", "ocictl logs -f web"),
    ("Stop and remove a container", "ocictl stop web && ocictl rm web"),
)

# Sections of ocictl(1), in order.
SECTIONS = (
    ("STATUS OF A CONTAINER", STATUS),
    ("FORMS OF OUTPUT", FORMS),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)
