"""The global options of ``ocictl``, options that several commands share, and all commands."""

from __future__ import annotations

from ociruntime.commandline.options import Option
from ociruntime.commandline.program import Groups, Program

SOCKET = "/run/ocid/ocid.sock"

GLOBAL_OPTIONS = (
    Option(
        "socket",
        f"socket of ocid (default: {SOCKET})",
        "PATH",
        details="Only root and the group given to ocid may connect.",
    ),
    Option("debug", "enable debug output and tracebacks"),
    Option("help", "print help; also after a command", short="h"),
    Option("version", "print the version", short="v"),
)
FORMAT = Option("format", "format: json, `table COLUMN,...` or {{.Field}}", "FORM")
INSPECT_FORMAT = Option("format", "format: json or a template with {{.Field}}", "FORM", short="f")
QUIET = Option("quiet", "print only IDs", short="q")
NO_LEGEND = Option("no-legend", "omit the header")
DETACH_KEYS_OPTION = Option("detach-keys", "detach key sequence (default: ctrl-p,ctrl-q)", "KEYS")
TIME = Option("time", "timeout before SIGKILL", "SECONDS", kind="count", short="t")
TIMEOUT = Option("timeout", value="SECONDS", kind="count")  # docker's newer name of it
SINCE = Option("since", "start time: 10m (ago) or a date", "TIME")
UNTIL = Option("until", "end time", "TIME")
FORCE = Option("force", "do not ask for confirmation", short="f")
FILTER = Option("filter", "filter the output", "KEY=VALUE", kind="list", short="f")

CONTAINER_STATUS = (
    ("N", "exit status of the command"),
    ("125", "the container was not started, or its exit status is unknown"),
    ("126", "the command cannot be executed"),
    ("127", "the command was not found"),
    ("128 + N", "signal N killed the command"),
)
# For commands that start a container and do not wait for it.
START_STATUS = (
    ("0", "success"),
    ("1", "failure; standard error has one line that explains it"),
    ("126", "the container's command cannot be executed"),
    ("127", "the container's command was not found"),
)

# Title in the help -> module -> its commands.
GROUPS: Groups = {
    "containers": {
        "run_and_attach": ("run", "create"),
        "containers": (
            "start",
            "stop",
            "kill",
            "restart",
            "pause",
            "unpause",
            "wait",
            "rename",
            "update",
            "rm",
            "prune",
        ),
    },
    "inspection": {
        "ps": ("ps",),
        "inspect": ("inspect",),
        "containers": ("top", "port"),
        "stats": ("stats",),
        "logs": ("logs",),
        "events": ("events",),
    },
    "processes in containers": {"run_and_attach": ("exec", "attach")},
    "files of containers": {"copy": ("cp", "export", "diff")},
    "volumes": {
        "volumes": (
            "volume create",
            "volume ls",
            "volume inspect",
            "volume rm",
            "volume prune",
        ),
    },
    "networks": {
        "networks": (
            "network create",
            "network ls",
            "network inspect",
            "network rm",
            "network prune",
        ),
    },
    "images, pods and the daemon": {
        "images": (
            *("images", "pull", "rmi", "image ls", "image pull", "image rm"),
            *("image inspect", "tag", "save", "load", "history", "image prune"),
        ),
        "login": ("login", "logout"),
        "system": (
            "system prune",
            "pod ls",
            "pod stop",
            "pod rm",
            "info",
            "version",
            "system df",
        ),
    },
    "strict commands for scripts, with fixed columns": {
        "container_subcommands": (
            "container create",
            "container start",
            "container stop",
            "container get",
            "container list",
            "container delete",
        )
    },
    "": {"networks": ("network connect", "network disconnect")},
}

# docker's longer names of commands that have a name without the first word, or another one.
# `container create`, `start`, `stop` and `list` are the strict commands above.
ALIASES = {
    **{
        f"container {name}": name
        for name in (
            *("attach", "cp", "diff", "exec", "export", "inspect", "kill", "logs", "pause"),
            *("port", "prune", "rename", "restart", "rm", "run", "stats", "top", "unpause"),
            *("update", "wait"),
        )
    },
    "container ls": "ps",
    "container ps": "ps",
    **{f"image {name}": name for name in ("history", "load", "save", "tag")},
    "image list": "image ls",
    "image remove": "image rm",
    "network list": "network ls",
    "network remove": "network rm",
    "system events": "events",
    "system info": "info",
    "volume list": "volume ls",
    "volume remove": "volume rm",
}

_BUILD = "build images with buildah or docker, then ocictl load, or push to a registry"
_PUSH = "push with skopeo or buildah; the daemon stores no push credentials"
_IMPORT = "ocictl run --rootfs DIR, or ocictl pull tar:FILE"
# Commands of docker's that are refused, and why.
ABSENT = {
    "build": _BUILD,
    "builder": _BUILD,
    "buildx": _BUILD,
    "commit": _BUILD,
    "compose": "containers on a network of `network create` find each other by name",
    "container commit": _BUILD,
    "context": "ocictl --socket=PATH selects the daemon",
    "image build": _BUILD,
    "image import": _IMPORT,
    "image push": _PUSH,
    "import": _IMPORT,
    "push": _PUSH,
    "search": "only Docker Hub supports it",
    **dict.fromkeys(("config", "node", "secret", "service", "stack", "swarm"), "no cluster here"),
}

PROGRAM = Program(
    "ocictl",
    "ociruntime.manager.client",
    "Manage containers and images with the daemon ocid.",
    GLOBAL_OPTIONS,
    GROUPS,
    foreign=("image",),
    aliases=ALIASES,
    absent=ABSENT,
)
