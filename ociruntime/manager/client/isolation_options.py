"""Options of a new container: its limits, kernel settings, devices and namespaces."""

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
        details="Needs --memory; -1 is unlimited swap.",
    ),
    Option(
        "memory-reservation",
        "soft memory limit",
        "SIZE",
        details="If the host runs short of memory, it first reclaims the memory above this limit.",
    ),
    Option(
        "cpu-quota",
        "CPU time per period, in microseconds",
        "MICROSECONDS",
        kind="number",
        details="The same limit as --cpus, which is quota divided by period.",
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
            "Its files are in memory, and are lost when the container stops. The defaults are "
            "nosuid, nodev and noexec, overridden by suid, dev and exec; size=64m and mode=1777 "
            "set size and mode. The same is --mount type=tmpfs,target=DIR,tmpfs-size=64m."
        ),
    ),
    Option(
        "ulimit",
        "set a resource limit of processes",
        "NAME=SOFT[:HARD]",
        kind="list",
        details="As in nofile=1024:4096; -1 is unlimited. NAME is one of setrlimit(2).",
    ),
    Option("pid", "PID namespace", "private|host", completed=False),
    Option("uts", "UTS namespace", "private|host", completed=False),
    Option("domainname", "NIS domain name of the container", "NAME"),
    Option("platform", "platform of the image (default: the host's)", "linux/ARCH"),
    # For users of docker: only docker's default values are accepted.
    Option("cgroupns", value="private", completed=False),
    Option("userns", value="host", completed=False),
    Option("log-driver", value="json-file", completed=False),
    Option(
        "device",
        "add a device of the host",
        "HOST[:PATH[:rwm]]",
        kind="list",
        details=(
            "PATH is the path in the container, by default the same; rwm is the access: read, "
            "write, mknod. If HOST is a directory, all devices in it are added."
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
            "Accepted for docker's users. The container's program is never process 1: that is "
            "a small init, which reaps orphans, and signals reach the program itself."
        ),
    ),
    Option(
        "sysctl",
        "set a kernel parameter of the container",
        "NAME=VALUE",
        kind="list",
        details=(
            "Only what belongs to the container: net.* without --network=host, and "
            "fs.mqueue.*, kernel.msg*, kernel.sem and kernel.shm* without --ipc=host."
        ),
    ),
)


def isolation_of(arguments: Arguments) -> Spec:
    """Return the members of a create request for ``ISOLATION_OPTIONS``.  Raises UsageError."""
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
    # 0, a negative time and an empty text are docker's "not set".
    return {member: value for member, value in spec.items() if value}


def _one_of(arguments: Arguments, option: str) -> str:
    """Return the value of an option with a fixed set of values, "" if it is not given.

    Raises UsageError, with the reason if docker supports the value and ``ocictl`` does not.
    """
    value = arguments.text(option)
    if value and value not in _POSSIBLE[option]:
        kind = value.partition(":")[0]
        reason = _REASONS.get((option, kind), f"supported: {', '.join(_POSSIBLE[option])}")
        raise UsageError(f"--{option}={value} is not supported", reason)
    return value


# Option -> its values.
_POSSIBLE = {
    "pid": ("private", "host"),
    "uts": ("private", "host"),
    "cgroupns": ("private",),
    "userns": ("host",),
    "log-driver": ("json-file",),
}
_FIXED = ("cgroupns", "userns", "log-driver")  # only the default is possible
_REASONS = {
    ("pid", "container"): "a container's processes end with its own pod; use exec, or --pid=host",
    ("cgroupns", "host"): "a container sees its own cgroups only",
    ("userns", "private"): "containers have the users of the host; see ocipod --private-users",
    ("log-driver", "none"): "the output is always logged; redirect it in the container",
    ("log-driver", "local"): "logs are files; see ocictl logs",
    ("log-driver", "journald"): "logs are files; see ocictl logs",
    ("log-driver", "syslog"): "logs are files; see ocictl logs",
}
# Option -> member of the request, and the parser of each of its values.
_PARSED = {
    "tmpfs": ("tmpfs", container_values.tmpfs),
    "ulimit": ("ulimits", container_values.ulimit),
    "device": ("devices", container_values.device),
}
# Key of --mount type=tmpfs -> option of the tmpfs that its value belongs to.
_TMPFS_KEYS = {"tmpfs-size": "size", "tmpfs-mode": "mode"}


def is_tmpfs(text: str) -> bool:
    """Return whether a value of ``--mount`` has ``type=tmpfs``."""
    return "type=tmpfs" in text.split(",")


def tmpfs_mount(text: str) -> dict[str, Any]:
    """Parse a value of ``--mount`` like ``type=tmpfs,target=/run,tmpfs-size=64m``.

    Raises UsageError.
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
