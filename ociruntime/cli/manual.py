"""What help, manual pages and completions say beyond the tables of ``options.py``.

Loaded when one of them is asked for or built, never by a command that does something.
"""

from __future__ import annotations

from ociruntime.spec import annotations as annotation_table

DESCRIPTION = (
    "ociruntime makes containers from bundles: a directory with a root file system and a "
    "config.json that says what the container is to be. It is called as runc and crun are, by "
    "podman, Docker and containerd as well as by hand. An error is one line on standard error, "
    "which begins with the place in config.json if there is one."
)

# Every command is in one group; `ociruntime --help` and ociruntime(1) show them in this order.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("before there is a container", ("spec", "check", "plan", "features", "snapshot")),
    ("its life", ("create", "start", "run", "kill", "delete", "checkpoint", "restore")),
    ("while it lives", ("exec", "ps", "pause", "resume", "update", "mounts")),
    ("looking at it", ("state", "events", "list")),
)

ID_FORMAT = "ID is the container's name: letters, digits and _ + - ."
# (beginning of a command, argument, what it is): said on the page of each command that has it.
ARGUMENTS = (("", "ID", ID_FORMAT),)

# ID is a new name there: there is nothing to complete.
NEW_CONTAINER = ("create", "run", "restore")

# Kind -> the command that prints, as the first words of its lines, what there is of it.
LISTED = {"container": "list -q"}

# What completes an option's value or an argument, by its name in the help: one of those,
# or directory, file, signal.
COMPLETED_BY = {
    "BUNDLE": "directory",
    "DIR": "directory",
    "FILE": "file",
    "ID": "container",
    "SIGNAL": "signal",
    "SOCKET": "file",
}
# Paths inside the container, and names that are free.
NOT_COMPLETED = (("exec", "cwd"), ("plan", "id"))

EXIT_STATUS = (
    ("0", "success"),
    ("1", "any failure; standard error has one line that says what and where"),
    ("3", "an unknown command"),
    ("130", "interrupted"),
)
PROGRAM_STATUS = (
    ("N", "what the program returned"),
    ("128 + N", "signal N ended the program"),
)
# Commands whose exit status is not that of the list above alone.
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {
    "run": (*PROGRAM_STATUS, ("1", "the container could not be made")),
    "check": (("0", "nothing is lacking"), ("1", "something is, or any other failure")),
    "exec": (*PROGRAM_STATUS, ("255", "the program could not be run")),
}

# (command, option) -> what the line of the help has no room for.
MORE: dict[tuple[str, str], str] = {
    ("", "root"): (
        "The default is /run/ociruntime for root and $XDG_RUNTIME_DIR/ociruntime for others. "
        "Every command on a container needs the same one."
    ),
    ("", "log"): "A prefix file: is taken away.",
    ("", "log-format"): (
        "With json every line is an object with level, msg and time. The default is text."
    ),
    ("", "log-level"): "The default is error.",
    ("", "debug"): (
        "With the Python package jsonschema installed, all faults in the shape of config.json "
        "are listed, not only the first."
    ),
    ("", "cgroup-manager"): (
        "The default is cgroupfs: the cgroup is made directly. With systemd it is made as a scope "
        "or a slice; linux.cgroupsPath is then SLICE:PREFIX:NAME. With disabled the container "
        "stays in its caller's cgroup, and limits are refused."
    ),
    ("", "rootless"): (
        "The default, auto, means true for ordinary users and in a user namespace that an ordinary "
        "user has made."
    ),
    ("create", "console-socket"): (
        "Needed when process.terminal is true. The descriptor of the master arrives with "
        "SCM_RIGHTS."
    ),
    ("create", "pid-file"): "It is written before the command returns.",
    ("create", "preserve-fds"): "Other descriptors above 2 are closed.",
    ("create", "no-pivot"): (
        "For a root file system that pivot_root(2) cannot leave. Without need it only makes the "
        "container less safe."
    ),
    ("kill", "all"): "All that are in the container's cgroup.",
    ("delete", "force"): "The signal is SIGKILL, sent to all processes of the container.",
    ("run", "detach"): (
        "The container's output then goes where this command's goes: give it a file. "
        "The container stays until it is deleted."
    ),
    ("run", "no-subreaper"): "Its orphans then go to the nearest subreaper above.",
    ("exec", "process"): "FILE holds a process object as in config.json.",
    ("exec", "user"): "Names are not looked up: the container's /etc/passwd is not trusted.",
    ("exec", "cgroup"): (
        "With cgroup v1 the path may be limited to one controller, and the option repeated."
    ),
}

# Command -> (what for, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("A configuration for the root file system in ./rootfs", "ociruntime spec"),
        ("What would be done with it", "ociruntime plan"),
        ("Doing it", "ociruntime run first"),
    ),
    "create": (
        (
            "A container that does not hold the caller's terminal",
            "ociruntime create --bundle /srv/web web </dev/null >web.log 2>&1",
        ),
    ),
    "start": (("Start what `create` has made", "ociruntime start web"),),
    "state": (("The status alone", "ociruntime state web | jq -r .status"),),
    "kill": (
        ("Ask the program to end", "ociruntime kill web"),
        ("End every process", "ociruntime kill --all web KILL"),
    ),
    "delete": (("Remove it, running or not", "ociruntime delete --force web"),),
    "run": (
        ("In the foreground", "ociruntime run --bundle /srv/web web"),
        (
            "In the background",
            "ociruntime run --detach -b /srv/web web </dev/null >web.log 2>&1",
        ),
    ),
    "exec": (
        ("A shell", "ociruntime exec --tty web sh"),
        ("As another user", "ociruntime exec --user 1000:1000 web id"),
        ("Options of the program", "ociruntime exec web ls -l /"),
    ),
    "ps": (
        ("The processes as ps(1) shows them", "ociruntime ps web"),
        ("Their memory", "ociruntime ps web -eo pid,rss,args"),
    ),
    "pause": (("Stop all processes", "ociruntime pause web"),),
    "resume": (("Let them go on", "ociruntime resume web"),),
    "mounts": (
        ("What mounts.json lists", "ociruntime mounts add web mounts.json"),
        ("Without it again", "ociruntime mounts remove web mounts.json"),
    ),
    "snapshot": (
        ("Whether commands start from it, and if not, why", "ociruntime snapshot status"),
        ("At boot, or after an upgrade", "ociruntime snapshot refresh"),
    ),
    "checkpoint": (
        (
            "Write it down, to go on another time",
            "ociruntime checkpoint --image-path web.images web",
        ),
        (
            "And let it run on",
            "ociruntime checkpoint --leave-running --image-path web.images web",
        ),
    ),
    "restore": (("Go on", "ociruntime restore --detach --image-path web.images --bundle web web"),),
    "update": (
        ("Another memory limit", "ociruntime update --memory 512M web"),
        (
            "Limits as in config.json",
            """echo '{"pids": {"limit": 100}}' | ociruntime update -r - web""",
        ),
    ),
    "list": (
        ("Delete all that have stopped", "ociruntime list -q | xargs -n 1 ociruntime delete"),
    ),
    "spec": (("For an ordinary user", "ociruntime spec --rootless --bundle web"),),
    "check": (
        ("What this host lacks", "ociruntime check"),
        ("All that is wrong with a bundle", "ociruntime check /srv/web"),
    ),
    "events": (("The figures once, for a program", "ociruntime events --stats web | jq .data"),),
    "plan": (
        ("The steps inside the container", "ociruntime plan /srv/web"),
        ("For a program", "ociruntime plan --format json /srv/web"),
    ),
    "features": (("The mount options", "ociruntime features | jq .mountOptions"),),
}

FILES = (
    ("config.json", "in the bundle: what the container is to be"),
    ("/run/ociruntime", "the state of root's containers"),
    ("$XDG_RUNTIME_DIR/ociruntime", "the state of other users' containers"),
)

ENVIRONMENT = (
    ("XDG_RUNTIME_DIR", "where an ordinary user's state is kept, unless --root says it"),
    ("LISTEN_FDS", "sockets of systemd that are handed on, if LISTEN_PID is this process"),
    ("NOTIFY_SOCKET", "told when the container is ready, which start and run wait for"),
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
    """What there is to say of an option; one of `create` means the same elsewhere."""
    return MORE.get((command, option)) or (
        MORE.get(("create", option), "") if command in ("run", "plan") else ""
    )
