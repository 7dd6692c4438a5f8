"""Tables of the commands of ``ocictl``, of docker's names for them, and of refused commands."""

from __future__ import annotations

from ociruntime.commandline.program import Groups, Program
from ociruntime.manager.client.options import GLOBAL_OPTIONS

# Title in the help -> module -> commands that the module defines.
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

# Docker's longer name of a command -> name in ocictl.  `container create`, `start`, `stop` and
# `list` are the strict commands above.
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
_PUSH = "use skopeo or buildah to push images"
_IMPORT = "ocictl run --rootfs DIR, or ocictl pull tar:FILE"
# Command of docker that is refused -> the reason or the alternative.
ABSENT = {
    "build": _BUILD,
    "builder": _BUILD,
    "buildx": _BUILD,
    "commit": _BUILD,
    "compose": "containers on a network created with `network create` find each other by name",
    "container commit": _BUILD,
    "context": "ocictl --socket=PATH selects the daemon",
    "image build": _BUILD,
    "image import": _IMPORT,
    "image push": _PUSH,
    "import": _IMPORT,
    "push": _PUSH,
    "search": "only Docker Hub supports search",
    **dict.fromkeys(
        ("config", "node", "secret", "service", "stack", "swarm"),
        "ocid manages a single host, not a cluster",
    ),
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
