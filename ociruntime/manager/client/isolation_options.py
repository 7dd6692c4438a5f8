"""The options of ``run`` and ``create`` for limits, kernel settings, devices and namespaces."""

from __future__ import annotations

from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.commandline import container_values
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.sizes import byte_count

Spec: TypeAlias = dict[str, Any]

ISOLATION_OPTIONS = (
    Option(
        "memory-swap",
        "limit of memory and swap together, or -1",
        "SIZE",
        details="Requires --memory. -1 means unlimited swap.",
    ),
    Option(
        "memory-reservation",
        "soft memory limit",
        "SIZE",
        details="If the host is short of memory, memory above this limit is reclaimed first.",
    ),
    Option(
        "cpu-quota",
        "CPU time per period, in microseconds",
        "MICROSECONDS",
        kind="number",
        details="Same limit as --cpus, which is the quota divided by the period.",
    ),
    Option(
        "cpu-period",
        "period of --cpu-quota (default: 100000)",
        "MICROSECONDS",
        kind="number",
    ),
    Option("cpuset-cpus", "CPUs to run on: 0-2,7", "LIST"),
    Option("cpuset-mems", "memory nodes to use: 0,1", "LIST"),
    Option(
        "tmpfs",
        "mount a tmpfs",
        "DIR[:OPTION,...]",
        kind="list",
        details=(
            "Files are kept in memory and lost when the container stops. The default options "
            "nosuid, nodev and noexec are overridden by suid, dev and exec. size=64m and mode=1777 "
            "set the size and the mode. Same as --mount type=tmpfs,target=DIR,tmpfs-size=64m."
        ),
    ),
    Option(
        "ulimit",
        "set a resource limit of processes",
        "NAME=SOFT[:HARD]",
        kind="list",
        details="For example nofile=1024:4096; -1 means unlimited. For NAME, see setrlimit(2).",
    ),
    Option("pid", "PID namespace", "private|host", completed=False),
    Option("uts", "UTS namespace", "private|host", completed=False),
    Option("domainname", "NIS domain name of the container", "NAME"),
    Option("platform", "platform of the image (default: the host's)", "linux/ARCH"),
    # Accepted for compatibility with docker, but only with docker's default value.
    Option("cgroupns", value="private", completed=False),
    Option("userns", value="host", completed=False),
    Option("log-driver", value="json-file", completed=False),
    Option(
        "device",
        "add a device of the host",
        "HOST[:PATH[:rwm]]",
        kind="list",
        details=(
            "PATH is the path in the container (default: HOST). rwm is the access: read, write, "
            "mknod. If HOST is a directory, all devices in it are added."
        ),
    ),
    Option(
        "privileged",
        "grant all privileges of the host's root",
        details=(
            "All capabilities and devices, no seccomp filter, nothing masked, /sys and its "
            "cgroups writable: the container can take over the host."
        ),
    ),
    Option(
        "init",
        "reap orphans (always done)",
        details=(
            "Accepted for compatibility with docker. Process 1 of a container is always a small "
            "init, which starts the program, reaps orphans and forwards signals to the program."
        ),
    ),
    Option(
        "sysctl",
        "set a kernel parameter of the container",
        "NAME=VALUE",
        kind="list",
        details=(
            "Only parameters of the container's namespaces: net.* without --network=host, and "
            "fs.mqueue.*, kernel.msg*, kernel.sem and kernel.shm* without --ipc=host."
        ),
    ),
)


def isolation_of(arguments: Arguments) -> Spec:
    """Return the members of a create request that ``ISOLATION_OPTIONS`` set.

    Raises UsageError for an invalid value.
    """
    spec: Spec = {
        member: [parse(text, f"--{option}") for text in arguments.list(option)]
        for option, (member, parse) in _PARSED.items()
    }
    spec["privileged"] = arguments.flag("privileged")
    spec["tmpfs"] += [tmpfs_mount(text) for text in arguments.list("mount") if is_tmpfs(text)]
    pairs = [container_values.pair(text, "--sysctl") for text in arguments.list("sysctl")]
    spec["sysctls"] = dict(pairs)
    for option in ("memory-swap", "memory-reservation"):
        if text := arguments.text(option):
            spec[option.replace("-", "_")] = byte_count(text, option)
    for option in ("cpu-quota", "cpu-period"):
        spec[option.replace("-", "_")] = max(arguments.number(option), 0)
    for option in ("cpuset-cpus", "cpuset-mems", "domainname", "platform"):
        spec[option.replace("-", "_")] = arguments.text(option)
    for option in _POSSIBLE:
        value = _one_of(arguments, option)
        if option not in _FIXED:
            spec[option] = value
    # Docker treats an option that is 0, an empty string or a negative time as not set.
    return {member: value for member, value in spec.items() if value}


def _one_of(arguments: Arguments, option: str) -> str:
    """Return the value of ``option``, one of its values in ``_POSSIBLE``; "" if it is not given.

    Raises UsageError for another value, with the reason if docker supports that value.
    """
    value = arguments.text(option)
    if value and value not in _POSSIBLE[option]:
        kind = value.partition(":")[0]
        reason = _REASONS.get((option, kind), f"supported: {', '.join(_POSSIBLE[option])}")
        raise UsageError(f"--{option}={value} is not supported", reason)
    return value


# Option -> its supported values.
_POSSIBLE = {
    "pid": ("private", "host"),
    "uts": ("private", "host"),
    "cgroupns": ("private",),
    "userns": ("host",),
    "log-driver": ("json-file",),
}
_FIXED = ("cgroupns", "userns", "log-driver")  # only the default is possible
_REASONS = {
    ("pid", "container"): "use exec to run a program in the container, or --pid=host",
    ("cgroupns", "host"): "each container has a private cgroup namespace",
    ("userns", "private"): "containers share the host's user namespace; see ocipod --private-users",
    ("log-driver", "none"): "the output is always logged; redirect it to /dev/null instead",
    ("log-driver", "local"): "logs are files; see ocictl logs",
    ("log-driver", "journald"): "logs are files; see ocictl logs",
    ("log-driver", "syslog"): "logs are files; see ocictl logs",
}
# Option -> (member of the create request, function that parses a value).
_PARSED = {
    "tmpfs": ("tmpfs", container_values.tmpfs),
    "ulimit": ("ulimits", container_values.ulimit),
    "device": ("devices", container_values.device),
}
# Key of --mount type=tmpfs -> mount option of tmpfs(5).
_TMPFS_KEYS = {"tmpfs-size": "size", "tmpfs-mode": "mode"}


def is_tmpfs(text: str) -> bool:
    """Return whether ``text``, a value of ``--mount``, contains ``type=tmpfs``."""
    return "type=tmpfs" in text.split(",")


def tmpfs_mount(text: str) -> dict[str, Any]:
    """Parse a value of ``--mount`` like ``type=tmpfs,target=/run,tmpfs-size=64m``.

    Returns an entry of the create request's ``tmpfs``.  Raises UsageError for an invalid value.
    """
    target, options = "", []
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if key in _TMPFS_KEYS and equals:
            options.append(f"{_TMPFS_KEYS[key]}={value}")
        elif key in ("ro", "readonly"):
            options += ["ro"] if not equals or value in ("true", "1") else []
        elif key in ("target", "dst", "destination"):
            target = value
        elif key in _TMPFS_KEYS:
            raise UsageError(f'--mount: key "{key}" requires a value', f"use {key}=VALUE")
        elif key != "type":
            known = ", ".join(("target", "readonly", *_TMPFS_KEYS))
            raise UsageError(f'--mount: unknown key "{key}" for type=tmpfs', f"supported: {known}")
    if not target:
        raise UsageError(f'--mount: target is missing in "{text}"')
    return {**container_values.tmpfs(target, "--mount"), "options": options}
