"""Texts of help, manual pages and completions that are not in the tables of ``options.py``.

Loaded only to print help or to build manual pages and completions.
"""

from __future__ import annotations

from ociruntime.runtime.spec import annotations as annotation_table

DESCRIPTION = (
    "ociruntime is an OCI container runtime. It creates containers from bundles: directories with "
    "a root filesystem and a config.json that describes the container. Podman, Docker and "
    "containerd call it as they call runc and crun. An error is one line on standard error; it "
    "begins with the JSON path of the setting in config.json that caused it, if there is one."
)

# Every command belongs to one group; `ociruntime --help` and ociruntime(1) use this order.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lifecycle", ("create", "start", "run", "kill", "delete", "checkpoint", "restore")),
    ("running containers", ("exec", "ps", "pause", "resume", "update", "mounts")),
    ("inspection", ("state", "events", "list")),
    ("bundles and this host", ("spec", "check", "plan", "features", "snapshot")),
)

ID_FORMAT = "ID names the container; it may contain letters, digits and _ + - ."
# (prefix of commands, argument, description): for the page of each command that has it.
ARGUMENTS = (("", "ID", ID_FORMAT),)

# There ID is a new name: nothing to complete.
NEW_CONTAINER = ("create", "run", "restore")

# Kind -> the command that lists such objects, in the first column of its output.
LISTED = {"container": "list -q"}

# Placeholder of an option's value or an argument in the help -> its completion: one of these kinds,
# or directory, file, signal.
COMPLETED_BY = {
    "BUNDLE": "directory",
    "DIR": "directory",
    "FILE": "file",
    "ID": "container",
    "SIGNAL": "signal",
    "SOCKET": "file",
}
# Paths inside the container, and new names.
NOT_COMPLETED = (("exec", "cwd"), ("plan", "id"))

EXIT_STATUS = (
    ("0", "success"),
    ("1", "failure; standard error has one line that explains it"),
    ("3", "unknown command"),
    ("130", "interrupted"),
)
PROGRAM_STATUS = (
    ("N", "exit status of the program"),
    ("128 + N", "signal N killed the program"),
)
# Commands with more exit statuses than those above.
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (*PROGRAM_STATUS, ("1", "the container could not be created")),
    "check": (("0", "no problem found"), ("1", "problems found, or any other failure")),
    "exec": (*PROGRAM_STATUS, ("255", "the program could not be run")),
}

# (command, option) -> details for the manual page.
MORE: dict[tuple[str, str], str] = {
    ("", "root"): (
        "The default is /run/ociruntime for root and $XDG_RUNTIME_DIR/ociruntime for others. "
        "Every command on a container needs the same one."
    ),
    ("", "log"): "A prefix file: is ignored.",
    ("", "log-format"): (
        "With json every line is an object with level, msg and time. The default is text."
    ),
    ("", "log-level"): "The default is error.",
    ("", "debug"): (
        "With the Python package jsonschema installed, all faults in the shape of config.json "
        "are listed, not only the first."
    ),
    ("", "cgroup-manager"): (
        "cgroupfs creates the cgroup directly. systemd creates a scope or a slice; "
        "linux.cgroupsPath is then SLICE:PREFIX:NAME. disabled leaves the container in the "
        "caller's cgroup and refuses limits."
    ),
    ("", "rootless"): (
        "auto means true for unprivileged users, and in user namespaces that they created."
    ),
    ("create", "console-socket"): (
        "Required if process.terminal is true. The master is sent with SCM_RIGHTS."
    ),
    ("create", "pid-file"): "The file is written before the command returns.",
    ("create", "preserve-fds"): "All other descriptors above 2 are closed.",
    ("create", "no-pivot"): (
        "For a root filesystem that pivot_root(2) cannot leave. It makes the container less safe."
    ),
    ("kill", "all"): "All processes in the container's cgroup.",
    ("delete", "force"): "SIGKILL is sent to all processes of the container.",
    ("run", "detach"): (
        "The container writes to the output of this command: redirect it to a file. "
        "The container is kept until it is deleted."
    ),
    ("run", "no-subreaper"): "Orphans are reparented to the nearest subreaper above.",
    ("exec", "process"): "FILE holds a process object as in config.json.",
    ("exec", "user"): "Names are not resolved: the container's /etc/passwd is not trusted.",
    ("exec", "cgroup"): (
        "With cgroup v1 a path may be given per controller, by repeating the option."
    ),
}

# Command -> (description, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("Create a configuration for the root filesystem in ./rootfs", "ociruntime spec"),
        ("Show what would be done", "ociruntime plan"),
        ("Run it", "ociruntime run first"),
    ),
    "create": (
        (
            "Create a container that does not use the caller's terminal",
            "ociruntime create --bundle /srv/web web </dev/null >web.log 2>&1",
        ),
    ),
    "start": (("Start a created container", "ociruntime start web"),),
    "state": (("Print only the status", "ociruntime state web | jq -r .status"),),
    "kill": (
        ("Ask the program to terminate", "ociruntime kill web"),
        ("Kill every process", "ociruntime kill --all web KILL"),
    ),
    "delete": (("Delete a container, running or not", "ociruntime delete --force web"),),
    "run": (
        ("Run in the foreground", "ociruntime run --bundle /srv/web web"),
        (
            "Run in the background",
            "ociruntime run --detach -b /srv/web web </dev/null >web.log 2>&1",
        ),
    ),
    "exec": (
        ("Open a shell", "ociruntime exec --tty web sh"),
        ("Run as another user", "ociruntime exec --user 1000:1000 web id"),
        ("Pass options to the program", "ociruntime exec web ls -l /"),
    ),
    "ps": (
        ("List the processes as ps(1) does", "ociruntime ps web"),
        ("List their memory usage", "ociruntime ps web -eo pid,rss,args"),
    ),
    "pause": (("Suspend all processes", "ociruntime pause web"),),
    "resume": (("Resume them", "ociruntime resume web"),),
    "mounts": (
        ("Add the mounts in mounts.json", "ociruntime mounts add web mounts.json"),
        ("Remove them", "ociruntime mounts remove web mounts.json"),
    ),
    "snapshot": (
        (
            "Show whether commands start from a snapshot, and if not, why",
            "ociruntime snapshot status",
        ),
        ("Make snapshots at boot, or after an upgrade", "ociruntime snapshot refresh"),
    ),
    "checkpoint": (
        (
            "Checkpoint and delete the container",
            "ociruntime checkpoint --image-path web.images web",
        ),
        (
            "Checkpoint and leave it running",
            "ociruntime checkpoint --leave-running --image-path web.images web",
        ),
    ),
    "restore": (
        ("Restore it", "ociruntime restore --detach --image-path web.images --bundle web web"),
    ),
    "update": (
        ("Change the memory limit", "ociruntime update --memory 512M web"),
        (
            "Read limits as in config.json",
            """echo '{"pids": {"limit": 100}}' | ociruntime update -r - web""",
        ),
    ),
    "list": (
        ("Delete all stopped containers", "ociruntime list -q | xargs -n 1 ociruntime delete"),
    ),
    "spec": (
        (
            "Create a configuration for an unprivileged user",
            "ociruntime spec --rootless --bundle web",
        ),
    ),
    "check": (
        ("Check this host", "ociruntime check"),
        ("List every problem of a bundle", "ociruntime check /srv/web"),
    ),
    "events": (
        ("Print the statistics once, for a script", "ociruntime events --stats web | jq .data"),
    ),
    "plan": (
        ("Show the steps of `create`", "ociruntime plan /srv/web"),
        ("Show them as JSON", "ociruntime plan --format json /srv/web"),
    ),
    "features": (("List the mount options", "ociruntime features | jq .mountOptions"),),
}

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

# A prefix stands for every name that begins with it.
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


def more(command: str, option: str) -> str:
    """Return the details of an option; those of `create` also serve `run` and `plan`."""
    return MORE.get((command, option)) or (
        MORE.get(("create", option), "") if command in ("run", "plan") else ""
    )
