"""Text of help, manual pages and completions of ``ocictl`` beyond its tables of options.

Loaded only to print help or to build manual pages and completions.
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
}
COMPLETED_BY = {
    "CONTAINER": "container",
    "UUID": "pod",
    "IMAGE": "image",
    "DIR": "directory",
    "FILE": "file",
    "PATH": "file",
    "SIGNAL": "signal",
}
# (command, option): paths inside a container.
NOT_COMPLETED: tuple[tuple[str, str], ...] = (
    ("run", "workdir"),
    ("create", "workdir"),
    ("container create", "workdir"),
    ("exec", "workdir"),
)
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "success"),
    ("1", "failure; standard error has one line that explains it"),
    ("2", "no command given"),
    ("126", "the container's command cannot be executed"),
    ("127", "the container's command was not found"),
    ("130", "interrupted"),
)
_OF_CONTAINER = (
    ("N", "exit status of the command"),
    ("125", "the container was not started, or its exit status is unknown"),
    ("126", "the command cannot be executed"),
    ("127", "the command was not found"),
    ("128 + N", "signal N killed the command"),
)
_MAY_START = (*EXIT_STATUS[:2], *EXIT_STATUS[3:5])
# Commands with other exit statuses than those above.
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": _OF_CONTAINER,
    "exec": _OF_CONTAINER,
    "attach": _OF_CONTAINER,
    "wait": _OF_CONTAINER,
    "start": _MAY_START,
    "restart": _MAY_START,
    "container start": _MAY_START,
}

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

# Command -> (description, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("Run a container in the background", "ocictl run -d --name web -p 8080:80 nginx"),
        ("Follow its logs", "ocictl logs -f web"),
        ("Stop and remove it", "ocictl stop web && ocictl rm web"),
    ),
    "run": (
        ("Run a command, then remove the container", "ocictl run --rm busybox echo hello"),
        ("Open a shell in a new container", "ocictl run --rm -it busybox sh"),
        (
            "Run a server with a memory limit, restart it on failure",
            "ocictl run -d --name web --restart on-failure:5 -m 512M nginx",
        ),
        (
            "Mount a directory of the host read-only",
            "ocictl run -d -v /srv/pages:/usr/share/nginx/html:ro nginx",
        ),
        (
            "Run a root filesystem without an image",
            "ocictl run --rm --rootfs ./rootfs /bin/sh -c 'echo hello'",
        ),
    ),
    "create": (("Create a container to start later", "ocictl create --name job busybox sleep 10"),),
    "start": (("Start it and attach to its output", "ocictl start --attach job"),),
    "stop": (("Stop it with a timeout of 30 seconds", "ocictl stop --time 30 web"),),
    "kill": (("Make it reload its configuration", "ocictl kill --signal HUP web"),),
    "wait": (("Wait for it and print its exit code", "ocictl wait job"),),
    "rm": (("Remove it, running or not", "ocictl rm --force web"),),
    "ps": (
        ("List all containers", "ocictl ps --all"),
        ("Print the names of failed containers", "ocictl ps -f exited=1 --format '{{.Name}}'"),
        ("Choose the columns", "ocictl ps --format 'table Name,Status,ExitCode'"),
    ),
    "inspect": (("Print its IP address", "ocictl inspect --format '{{.Addresses.Default}}' web"),),
    "logs": (("Show the last 20 lines and follow", "ocictl logs --tail 20 --follow web"),),
    "events": (("Show the events of the last hour, then follow", "ocictl events --since 1h"),),
    "exec": (("Open a shell in a container", "ocictl exec -it web sh"),),
    "pull": (("Pull from a registry", "ocictl pull quay.io/prometheus/busybox:latest"),),
    "container create": (
        (
            "Create a container from a directory",
            "ocictl container create web --rootfs=/srv/rootfs /bin/httpd -f",
        ),
    ),
    "container list": (("List all containers", "ocictl container list"),),
}

# Sections of ocictl(1), in order.
SECTIONS = (
    ("STATUS OF A CONTAINER", STATUS),
    ("FORMS OF OUTPUT", FORMS),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)

# (command, or "" for all; option): details for the manual page.
MORE: dict[tuple[str, str], str] = {
    ("", "socket"): "Only root and the group given to ocid may connect.",
    ("run", "volume"): (
        "SOURCE is a directory of the host if it contains a slash, else the name of a volume, "
        "which is removed with the container."
    ),
    ("run", "rm"): "Its logs are removed, too.",
    ("run", "rootfs"): "The directory itself is not modified.",
    ("run", "restart"): (
        "`unless-stopped` is `always` until the container is stopped by hand. The restart backoff "
        "starts at 100 ms and doubles up to one minute."
    ),
    ("run", "network"): "The default network is a bridge with NAT.",
    ("run", "env"): "A name without a value is copied from ocictl's environment.",
}
# Commands that share the details of `run`.
_SAME_AS_RUN = ("create", "container create")


def more(command: str, option: str) -> str:
    """Return the details of an option of a command, or ""."""
    if command in _SAME_AS_RUN:
        command = "run"
    return MORE.get((command, option), "")
