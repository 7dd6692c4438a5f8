"""Texts of the manual pages of ``ocipod``, and data for its shell completions.

The descriptions of options are beside their commands (``pods/cli/``, ``pods/manifest/``).

This module is loaded only when manual pages and completions are built.
"""

from __future__ import annotations

DESCRIPTION = (
    "ocipod runs pods: groups of apps that start and stop together and share a network. Each app "
    "is a container, created from an image by ociruntime or another OCI runtime. There is no "
    "daemon: the `ocipod run` process is the monitor of its pod, and the pod lives as long as its "
    "monitor.\n\n"
    "A pod of `run` or `prepare` is immutable. It stops when its last app exits, or when one app "
    "fails; then the other apps are stopped. A pod of `app sandbox` is mutable: apps can be added "
    "and removed until it is stopped.\n\n"
    "A stopped pod is kept, with its logs and exit codes, until `rm` or `gc` removes it. A command "
    "may be abbreviated to a unique prefix, and so may the UUID of a pod. An error is one line on "
    "standard error."
)

_ANY_FORM = "The section IMAGES of ocipod(1) lists the forms of IMAGE."

# (prefix of commands, argument, description): for the page of each command with the argument.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "UUID", "UUID is the UUID of a pod or a unique prefix of it."),
    ("fetch", "IMAGE", _ANY_FORM),
    ("run", "IMAGE", _ANY_FORM),
    ("prepare", "IMAGE", _ANY_FORM),
    ("app add", "IMAGE", _ANY_FORM),
    (
        "image",
        "IMAGE",
        "IMAGE is the name, the ID or a unique prefix of the ID of an image in the store.",
    ),
)

# Kind of an argument -> the command that lists its possible values.
LISTED = {
    "pod": "list --full --no-legend",
    "image": "image list --no-legend --fields=name",
    "app": "app list --no-legend ARGUMENT1",
}
COMPLETED_BY = {
    "UUID": "pod",
    "IMAGE": "image",
    "APP": "app",
    "DIR": "directory",
    "DIRECTORY": "directory",
    "FILE": "file",
    "SIGNAL": "signal",
}
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "success"),
    ("254", "failure of ocipod itself; standard error has one line that explains it"),
    ("2", "no command given"),
    ("130", "interrupted"),
)
STATES = (
    ("embryo", "only its directory exists"),
    ("preparing", "its images are being unpacked, its manifest written"),
    ("aborted prepare", "preparation failed; `gc` removes it"),
    ("prepared", "ready for `run-prepared`"),
    ("running", "its apps are running, or it waits for apps"),
    ("exited", "stopped; logs and exit codes are kept"),
    ("exited garbage", "stopped and marked by `gc` for removal"),
    ("exited deleting", "stopped and being removed"),
    ("garbage", "never ran, marked for removal"),
    ("deleting", "never ran, being removed"),
)

IMAGES = (
    ("[docker://]NAME[:TAG|@DIGEST]", "in a registry (default: docker.io)"),
    ("oci:DIR[:TAG]", "in an OCI image layout directory"),
    ("oci-archive:FILE[:TAG]", "in an OCI image layout tar file"),
    ("docker-archive:FILE[:TAG]", "in a tar file written by `docker save`"),
    ("dir:DIR", "a directory with a root filesystem"),
    ("tar:FILE", "a tar file with a root filesystem"),
    ("FILE.aci", "an App Container Image"),
    ("sha256:DIGEST", "an image in the store, by its ID or at least seven digits of it"),
)

FILES = (
    ("/var/lib/ociruntime", "pods and images; see --dir"),
    ("/var/lib/ociruntime/pods", "one directory per pod, below the directory of its phase"),
    ("/usr/lib/ociruntime", "vendor settings"),
    ("/etc/ociruntime", "local settings, which override vendor settings"),
    ("/run/ocipod", "state of the OCI runtimes, one directory each"),
)

# (description, command line).
EXAMPLES = (
    ("Run a pod with one app", "ocipod run busybox --exec /bin/echo -- hello"),
    ("List pods", "ocipod list"),
    ("Remove stopped pods", "ocipod gc --grace-period=0s"),
)

# Sections of ocipod(1), in order.
SECTIONS = (
    ("IMAGES", IMAGES),
    ("STATES OF A POD", STATES),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)
