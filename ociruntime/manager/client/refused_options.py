"""Options of docker and podman that ``ocictl`` refuses by name, each with the reason."""

from __future__ import annotations

from ociruntime.commandline.options import Option

_HEALTH = "ocid does not run health checks; see --restart"
_BLOCK_IO = "ocid does not limit the block I/O of containers"
_REAL_TIME = "ocid does not configure real-time scheduling"
_WINDOWS = "applies only to Windows containers"
_ADDRESS = "only an IPv4 address can be set; see --ip"
_ONE_PLATFORM = "an image in the store has one platform; see pull --platform"
_SIGNATURES = "the daemon's policy decides which signatures are checked; see --insecure"
_NO_CLUSTER = "ocid manages a single host, not a cluster"
_SIGNAL = "set the stop signal with run --stop-signal, or use kill --signal"
_NEW_NETWORKS = "create the container again with --network=NETWORK[,NETWORK...]"
_PLUGIN = "the network's plugin takes no options"

_NEW = {
    "annotation": "use --label for metadata",
    "blkio-weight": _BLOCK_IO,
    "blkio-weight-device": _BLOCK_IO,
    "cgroup-parent": "each container is in the cgroup of its pod, /ocipod-UUID",
    "cpu-count": _WINDOWS,
    "cpu-percent": _WINDOWS,
    "cpu-rt-period": _REAL_TIME,
    "cpu-rt-runtime": _REAL_TIME,
    "device-cgroup-rule": "use --device for each device",
    "device-read-bps": _BLOCK_IO,
    "device-read-iops": _BLOCK_IO,
    "device-write-bps": _BLOCK_IO,
    "device-write-iops": _BLOCK_IO,
    "disable-content-trust": _SIGNATURES,
    "gpus": "use --device for the device files, and -v for the driver's libraries",
    "health-cmd": _HEALTH,
    "health-interval": _HEALTH,
    "health-retries": _HEALTH,
    "health-start-interval": _HEALTH,
    "health-start-period": _HEALTH,
    "health-timeout": _HEALTH,
    "io-maxbandwidth": _WINDOWS,
    "io-maxiops": _WINDOWS,
    "ip6": _ADDRESS,
    "isolation": _WINDOWS,
    "kernel-memory": "Linux no longer supports this limit; see --memory",
    "link": "containers on a network created with `network create` find each other by name",
    "link-local-ip": _ADDRESS,
    "log-opt": "each log is at most three files of 10 MiB",
    "mac-address": "the network plugin chooses the MAC address",
    "memory-swappiness": "cgroup v2 does not support this setting; see --memory-swap",
    "oom-kill-disable": "a container that runs out of memory would hang; see --oom-score-adj",
    "pod": "each container has its own pod; `ocipod app add` adds apps to a pod",
    "runtime": "ocid --runtime sets the runtime of all containers",
    "storage-opt": "ocid does not limit the size of a container's files",
    "use-api-socket": "mount the socket of ocid with --volume",
    "volume-driver": "volumes are directories of ocid; see --volume",
}
# Command -> option -> the reason why it is refused.  "NAME,L" means that its short form is -L.
REFUSED: dict[str, dict[str, str]] = {
    "run": _NEW,
    "create": {"attach,a": "start --attach attaches to the container", **_NEW},
    "start": {
        "checkpoint": "ocid does not checkpoint containers",
        "checkpoint-dir": "ocid does not checkpoint containers",
    },
    "stop": {"signal,s": _SIGNAL},
    "restart": {"signal,s": _SIGNAL},
    "rm": {"link,l": "containers have no links; to connect them, see network create"},
    "update": {
        "blkio-weight": _BLOCK_IO,
        "cpu-rt-period": _REAL_TIME,
        "cpu-rt-runtime": _REAL_TIME,
    },
    "inspect": {"size,s": "ps --size shows how much each container has written"},
    "logs": {"details": "log lines have no attributes; see --timestamps"},
    "stats": {"all,a": "only a running container uses resources; see ps --all"},
    "exec": {"privileged": "a process has the privileges of its container; see run --privileged"},
    "images": {"tree": "an image in the store has one platform"},
    "pull": {
        "all-tags,a": "a registry may have thousands of tags; pull each by its name",
        "disable-content-trust": _SIGNATURES,
    },
    "rmi": {"no-prune": "images in the store have no parent images", "platform": _ONE_PLATFORM},
    "history": {"platform": _ONE_PLATFORM},
    "save": {"platform": _ONE_PLATFORM},
    "load": {"platform": _ONE_PLATFORM},
    "image inspect": {"platform": _ONE_PLATFORM},
    "volume create": {
        "opt,o": "a volume is a directory of ocid; mount other file systems on the host",
        **dict.fromkeys(
            (
                *("availability", "group", "limit-bytes", "required-bytes", "scope", "secret"),
                *("sharing", "topology-preferred", "topology-required", "type"),
            ),
            _NO_CLUSTER,
        ),
    },
    "volume ls": {"cluster": _NO_CLUSTER},
    "network create": {
        "attachable": _NO_CLUSTER,
        "aux-address": "addresses cannot be reserved; see run --ip",
        "config-from": _NO_CLUSTER,
        "config-only": _NO_CLUSTER,
        "ingress": _NO_CLUSTER,
        "ip-range": "addresses are allocated from the whole subnet; see run --ip",
        "ipam-driver": _PLUGIN,
        "ipam-opt": _PLUGIN,
        "ipv4": "each network has an IPv4 subnet; see --subnet",
        "opt,o": _PLUGIN,
        "scope": _NO_CLUSTER,
    },
    "network inspect": {"verbose,v": _NO_CLUSTER},
    "network prune": {"filter": "network prune removes all unused networks; see network rm"},
    "network connect": dict.fromkeys(
        ("alias", "driver-opt", "gw-priority", "ip", "ip6", "link", "link-local-ip"),
        _NEW_NETWORKS,
    ),
    "network disconnect": {"force,f": _NEW_NETWORKS},
    "image prune": {"filter": "image prune removes all unused images; see images --filter and rmi"},
    "system prune": {"filter": "see ps --filter, volume prune --filter and images --filter"},
    "prune": {"filter": "prune removes all stopped containers; see ps --filter and rm"},
    "system df": {"verbose,v": "use images, ps --size and volume ls to list the objects"},
}


def refused(command: str) -> tuple[Option, ...]:
    """Return the options that ``command`` refuses, to be added to the command's own options."""
    options = []
    for names, reason in REFUSED[command].items():
        name, _, short = names.partition(",")
        options.append(Option(name, value=reason, kind="refused", short=short))
    return tuple(options)
