"""Options of docker and podman that ``ocictl`` refuses by name, each with the reason."""

from __future__ import annotations

from ociruntime.commandline.options import Option

_HEALTH = "health checks are not run; see --restart"
_BLOCK_IO = "block I/O is not limited"
_REAL_TIME = "the real-time scheduler is not configured"
_WINDOWS = "only containers of Windows have it"
_ADDRESS = "the network chooses the address; see --ip"
_ONE_PLATFORM = "an image in the store has one platform; see pull --platform"
_SIGNATURES = "images are checked by the daemon's policy; see --insecure"
_NO_CLUSTER = "ocid manages a single host, not a cluster"
_SIGNAL = "the signal is set by run --stop-signal; kill --signal sends any other"
_NEW_NETWORKS = "create the container again with --network=NETWORK[,NETWORK...]"
_PLUGIN = "the network's plugin takes no options"

_NEW = {
    "annotation": "use --label for metadata",
    "blkio-weight": _BLOCK_IO,
    "blkio-weight-device": _BLOCK_IO,
    "cgroup-parent": "a container's cgroup is that of its pod, /ocipod-UUID",
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
    "kernel-memory": "the kernel no longer has this limit; see --memory",
    "link": "containers on a network of `network create` find each other by name",
    "link-local-ip": _ADDRESS,
    "log-opt": "logs are up to three files of 10 MiB",
    "mac-address": "the network chooses the address",
    "memory-swappiness": "cgroup v2 does not have this setting; see --memory-swap",
    "oom-kill-disable": "a container out of memory would hang; see --oom-score-adj",
    "pod": "each container has a pod of its own; `ocipod app add` adds apps to a pod",
    "runtime": "ocid --runtime sets the runtime of all containers",
    "storage-opt": "the size of a container's files is not limited",
    "use-api-socket": "mount the socket of ocid with --volume",
    "volume-driver": "volumes are directories of ocid; see --volume",
}
# Command -> option -> why it is refused.  "NAME,L" has the short form -L.
REFUSED: dict[str, dict[str, str]] = {
    "run": _NEW,
    "create": {"attach,a": "start --attach attaches to the container", **_NEW},
    "start": {
        "checkpoint": "containers of ocid are not checkpointed",
        "checkpoint-dir": "containers of ocid are not checkpointed",
    },
    "stop": {"signal,s": _SIGNAL},
    "restart": {"signal,s": _SIGNAL},
    "rm": {"link,l": "there are no links, only networks; see network create"},
    "update": {
        "blkio-weight": _BLOCK_IO,
        "cpu-rt-period": _REAL_TIME,
        "cpu-rt-runtime": _REAL_TIME,
    },
    "inspect": {"size,s": "ps --size shows how much each container has written"},
    "logs": {"details": "a log line has no attributes here; see --timestamps"},
    "stats": {"all,a": "only a running container uses resources; see ps --all"},
    "exec": {"privileged": "a process has the privileges of its container; see run --privileged"},
    "images": {"tree": "an image in the store has one platform"},
    "pull": {
        "all-tags,a": "a registry may have thousands of tags; pull each by its name",
        "disable-content-trust": _SIGNATURES,
    },
    "rmi": {"no-prune": "an image in the store has no parents", "platform": _ONE_PLATFORM},
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
        "aux-address": "addresses are given to containers only; see run --ip",
        "config-from": _NO_CLUSTER,
        "config-only": _NO_CLUSTER,
        "ingress": _NO_CLUSTER,
        "ip-range": "addresses are taken from the whole subnet; see run --ip",
        "ipam-driver": _PLUGIN,
        "ipam-opt": _PLUGIN,
        "ipv4": "each network has an IPv4 subnet; see --subnet",
        "opt,o": _PLUGIN,
        "scope": _NO_CLUSTER,
    },
    "network inspect": {"verbose,v": _NO_CLUSTER},
    "network prune": {"filter": "it removes all unused networks; see network rm"},
    "network connect": dict.fromkeys(
        ("alias", "driver-opt", "gw-priority", "ip", "ip6", "link", "link-local-ip"),
        _NEW_NETWORKS,
    ),
    "network disconnect": {"force,f": _NEW_NETWORKS},
    "image prune": {"filter": "it removes all unused images; see images --filter and rmi"},
    "system prune": {"filter": "see ps --filter, volume prune --filter and images --filter"},
    "prune": {"filter": "it removes all stopped containers; see ps --filter and rm"},
    "system df": {"verbose,v": "images, ps --size and volume ls show the single objects"},
}


def refused(command: str) -> tuple[Option, ...]:
    """Return the refused options of a command, to add to its definition."""
    options = []
    for names, reason in REFUSED[command].items():
        name, _, short = names.partition(",")
        options.append(Option(name, value=reason, kind="refused", short=short))
    return tuple(options)
