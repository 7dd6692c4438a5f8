"""What help, manual pages and completions of ``ocictl`` say beyond its tables of options.

Loaded when one of them is asked for or built, never by a command that does something.
"""

from __future__ import annotations

DESCRIPTION = (
    "ocictl speaks with ocid, the container manager, over a Unix socket: HTTP with JSON. ocid "
    "keeps containers by name, starts them again if they are to run always, and remembers how "
    "they ended. A container is a pod of `ocipod` with one app, whose monitor is a process of its "
    "own: containers run on when ocid ends, and it finds them again when it starts.\n\n"
    "Commands and options are those of docker and podman where there is no reason for others. "
    "The commands that begin with `container` are strict, for programs: they fail where there is "
    "nothing to do, and their tables have fixed columns.\n\n"
    "Commands may be shortened as long as only one begins so, and containers be named by their "
    "name, their id or the first digits of it. An error is one line on standard error."
)

_IMAGE = "IMAGE is written in one of the forms that the section IMAGES of ocipod(1) lists."

# (beginning of a command, argument, what it is): said on the page of each command that has it.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    ("", "CONTAINER", "CONTAINER is a name, an id, or the first digits of one."),
    ("pod", "UUID", "UUID is that of a pod, or its first digits if no other pod begins so."),
    ("run", "IMAGE", _IMAGE),
    ("create", "IMAGE", _IMAGE),
    ("pull", "IMAGE", _IMAGE),
    ("rmi", "IMAGE", "IMAGE is one of the store, by its name or its id."),
)

# Name of a command -> its summary in the list of all commands, where two share a line.
SHORT: dict[str, str] = {
    "run": "make and start one",
    "create": "make a container",
    "start": "start containers",
    "stop": "ask them to end",
    "kill": "send a signal",
    "restart": "stop and start",
    "pause": "freeze all processes",
    "unpause": "let them go on",
    "wait": "until they have ended",
    "rename": "give another name",
    "rm": "remove containers",
    "prune": "remove what does not run",
    "ps": "list containers",
    "inspect": "all about them",
    "logs": "what one has written",
    "events": "what happens",
    "stats": "what they use",
    "top": "processes of one",
    "port": "ports of one",
    "exec": "run a program in one",
    "attach": "use its streams",
    "images": "list the store",
    "pull": "put into the store",
    "rmi": "remove images",
    "info": "about the daemon",
    "version": "versions",
}

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
    ("1", "any failure; standard error has one line that says what"),
    ("2", "no command"),
    ("126", "the container's program cannot be executed"),
    ("127", "the container's program is not there"),
    ("130", "interrupted"),
)
_OF_CONTAINER = (
    ("N", "what the program returned"),
    ("125", "it was not started, or nobody knows how it ended"),
    ("126", "it cannot be executed"),
    ("127", "it is not there"),
    ("128 + N", "signal N ended it"),
)
_MAY_START = (*EXIT_STATUS[:2], *EXIT_STATUS[3:5])
# Commands whose exit status is not that of the list above alone.
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
    ("created", "it has not run yet"),
    ("running", "its program runs"),
    ("paused", "its processes are frozen"),
    ("stopped", "it has ended; its files and what it wrote are there"),
    ("restarting", "it has ended, and will be started again by its policy"),
    ("removing", "it is being removed"),
    ("unknown", "its pod cannot be read; `inspect` says why"),
    ("corrupt", "what ocid had noted of it cannot be read; `rm -f` removes it"),
)

FORMS = (
    ("json", "one JSON document"),
    ("table COLUMN,...", "these fields of each, below a line of titles"),
    ("TEXT", "a line for each, with the field's value for each {{.Field}} in it"),
)

FILES = (
    ("/run/ocid/ocid.sock", "where ocid listens; --socket is another place"),
    ("/var/lib/ociruntime/manager", "what ocid notes of containers"),
    ("/var/lib/ociruntime", "pods and images, which ocipod knows as well"),
)

# Command -> (what for, command line).
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("A container that goes on after this", "ocictl run -d --name web -p 8080:80 nginx"),
        ("What it writes", "ocictl logs -f web"),
        ("The end of it", "ocictl stop web && ocictl rm web"),
    ),
    "run": (
        ("One program, of which nothing stays", "ocictl run --rm busybox echo hello"),
        ("A shell with a terminal", "ocictl run --rm -it busybox sh"),
        (
            "A server that is started again when it fails, with a limit",
            "ocictl run -d --name web --restart on-failure:5 -m 512M nginx",
        ),
        (
            "A directory of the host, that it can only read",
            "ocictl run -d -v /srv/pages:/usr/share/nginx/html:ro nginx",
        ),
        ("Without an image", "ocictl run --rm --rootfs ./rootfs /bin/sh -c 'echo hello'"),
    ),
    "create": (("To be started later", "ocictl create --name job busybox sleep 10"),),
    "start": (("And see what it says", "ocictl start --attach job"),),
    "stop": (("With half a minute to end", "ocictl stop --time 30 web"),),
    "kill": (("Have it read its settings", "ocictl kill --signal HUP web"),),
    "wait": (("Until it has ended", "ocictl wait job"),),
    "rm": (("Whatever it does", "ocictl rm --force web"),),
    "ps": (
        ("All there are", "ocictl ps --all"),
        ("Names of those that have failed", "ocictl ps -f exited=1 --format '{{.Name}}'"),
        ("Other columns", "ocictl ps --format 'table Name,Status,ExitCode'"),
    ),
    "inspect": (("Its address", "ocictl inspect --format '{{.Addresses.Default}}' web"),),
    "logs": (("The last lines, and those to come", "ocictl logs --tail 20 --follow web"),),
    "events": (("Those of the last hour", "ocictl events --since 1h"),),
    "exec": (("A shell in it", "ocictl exec -it web sh"),),
    "pull": (("From a registry", "ocictl pull quay.io/prometheus/busybox:latest"),),
    "container create": (
        (
            "Of a directory",
            "ocictl container create web --rootfs=/srv/rootfs /bin/httpd -f",
        ),
    ),
    "container list": (("All there are", "ocictl container list"),),
}

# Sections of ocictl(1), in order.
SECTIONS = (
    ("STATUS OF A CONTAINER", STATUS),
    ("FORMS OF OUTPUT", FORMS),
    ("EXIT STATUS", EXIT_STATUS),
    ("FILES", FILES),
)

# (command, or "" for all; option): what a line of help has no room for.
MORE: dict[tuple[str, str], str] = {
    ("", "socket"): "Only root and the group that ocid was given may use it.",
    ("run", "volume"): (
        "SOURCE is a directory of the host if a slash is in it, else the name of a volume, "
        "which lives as long as the container."
    ),
    ("run", "rm"): "What it has written goes as well.",
    ("run", "rootfs"): "The directory itself is never changed.",
    ("run", "restart"): (
        "`unless-stopped` is `always` for those that nobody has stopped. Between two starts there "
        "is a pause of 100 ms, which doubles up to a minute."
    ),
    ("run", "network"): "The default one is a bridge of the host's, with a way out.",
    ("run", "env"): "A name without a value takes that of ocictl's own variable.",
}
# Commands with the same options have the same to say of them.
_SAME_AS_RUN = ("create", "container create")


def more(command: str, option: str) -> str:
    """The remark on an option of a command, or ""."""
    if command in _SAME_AS_RUN:
        command = "run"
    return MORE.get((command, option), "")
