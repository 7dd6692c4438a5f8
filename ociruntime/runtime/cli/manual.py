"""Additional texts for the manual pages and shell completions of ``ociruntime``.

Only the tools that build the manual pages and completions import this module.
"""

from __future__ import annotations

from ociruntime.runtime.cli.help import ID_FORMAT
from ociruntime.runtime.spec import annotations as annotation_table

DESCRIPTION = (
    "ociruntime is an OCI container runtime. It creates containers from bundles: directories with "
    "a root filesystem and a config.json that describes the container. Podman, Docker and "
    "containerd call it as they call runc and crun. An error is one line on standard error; it "
    "begins with the JSON path of the setting in config.json that caused it, if there is one."
)

# (prefix of command names, argument, its description): added to these commands' manual pages.
ARGUMENTS = (("", "ID", ID_FORMAT),)

# Commands whose argument ID is a new name, so that completion has nothing to offer.
NEW_CONTAINER = ("create", "run", "restore")

# Kind of object -> the command whose output lists the names in its first column.
LISTED = {"container": "list -q"}

# Placeholder in the help (such as DIR) -> its completion: a key of LISTED, directory, file, signal.
COMPLETED_BY = {
    "BUNDLE": "directory",
    "DIR": "directory",
    "FILE": "file",
    "ID": "container",
    "SIGNAL": "signal",
    "SOCKET": "file",
}
EXIT_STATUS = (
    ("0", "success"),
    ("1", "failure; standard error has one line that explains it"),
    ("3", "unknown command"),
    ("130", "interrupted"),
)
# (description, command line).
EXAMPLES = (
    ("Create a configuration for the root filesystem in ./rootfs", "ociruntime spec"),
    ("Show what would be done", "ociruntime plan"),
    ("Run it", "ociruntime run first"),
)

FILES = (
    ("config.json", "in the bundle: configuration of the container"),
    ("/run/ociruntime", "state of root's containers"),
    ("$XDG_RUNTIME_DIR/ociruntime", "state of other users' containers"),
)

ENVIRONMENT = (
    ("XDG_RUNTIME_DIR", "directory of an unprivileged user's state, unless --root is given"),
    ("LISTEN_FDS", "systemd sockets to pass on, if LISTEN_PID is this process"),
    ("NOTIFY_SOCKET", "notified when the container is ready; start and run wait for it"),
)

# A name that ends with "." is a prefix of annotation names.
ANNOTATIONS = tuple(
    (f"{name}NAME" if name.endswith(".") else name, meaning)
    for name, meaning, _ in annotation_table.ANNOTATIONS
)


# Sections of ociruntime(1), in order.
SECTIONS = (
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
    ("ENVIRONMENT", ENVIRONMENT),
    ("ANNOTATIONS", ANNOTATIONS),
)
