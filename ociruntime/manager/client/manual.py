"""Texts of the manual pages of ``ocictl``, and data for its shell completions.

This module is loaded only when manual pages and completions are built.
"""

from __future__ import annotations

DESCRIPTION = (
    "ocictl is the client of ocid, the container manager. It talks HTTP and JSON over a Unix "
    "socket. ocid manages containers by name, restarts them by their policy, and records their "
    "exit codes. A container is a pod of `ocipod` with one app and a monitor process of its own: "
    "it keeps running when ocid stops, and ocid finds it again when it starts.\n\n"
    "Commands and options follow docker and podman. The `container` commands are strict, for "
    "scripts: they fail if there is nothing to do, and their tables have fixed columns.\n\n"
    "A command may be abbreviated to a unique prefix. A container may be named by its name, its "
    "ID or a unique prefix of the ID. An error is one line on standard error."
)

_IMAGE = "The section IMAGES of ocipod(1) lists the forms of IMAGE."

# (prefix of commands, argument, description): for the page of each command that has it.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "CONTAINER", "CONTAINER is a name, an ID or a unique prefix of an ID."),
    ("pod", "UUID", "UUID is the UUID of a pod or a unique prefix of it."),
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
    ("1", "failure; standard error has one line that explains it"),
    ("2", "no command given"),
    ("126", "the container's command cannot be executed"),
    ("127", "the container's command was not found"),
    ("130", "interrupted"),
)
STATUS = (
    ("created", "never started"),
    ("running", "its command is running"),
    ("paused", "all its processes are suspended"),
    ("stopped", "exited; its files and logs are kept"),
    ("restarting", "exited, to be started again by its restart policy"),
    ("removing", "being removed"),
    ("unknown", "its pod cannot be read; `inspect` shows the reason"),
    ("corrupt", "the record of ocid cannot be read; `rm -f` removes it"),
)

FORMS = (
    ("json", "one JSON document"),
    ("table COLUMN,...", "a table of these fields, with a header"),
    ("TEXT", "one line each, with {{.Field}} replaced by the value of the field"),
)

FILES = (
    ("/run/ocid/ocid.sock", "socket of ocid; see --socket"),
    ("/var/lib/ociruntime/manager", "records of containers"),
    ("/var/lib/ociruntime", "pods and images, shared with ocipod"),
)

# (description, command line).
EXAMPLES = (
    ("Run a container in the background", "ocictl run -d --name web -p 8080:80 nginx"),
    ("Follow its logs", "ocictl logs -f web"),
    ("Stop and remove it", "ocictl stop web && ocictl rm web"),
)

# Sections of ocictl(1), in order.
SECTIONS = (
    ("STATUS OF A CONTAINER", STATUS),
    ("FORMS OF OUTPUT", FORMS),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)
